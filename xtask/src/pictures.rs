//! `cargo xtask pictures`: the pictures of README, drawn from kept records, so they show what the
//! program writes today.
//!
//! ```text
//!   runs/front/race.jsonl.gz --report--> page --chromium--> docs/report-{light,dark}.png
//!   runs/front/motion.json  --explain--> page --chromium--> frames --ffmpeg--> docs/motion.gif
//! ```

use crate::steps;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// The folder of the records.
pub const FRONT: &str = "runs/front";

/// The frames of the animation, and how many of them a second shows.
const FRAMES: u32 = 80;
const FRAMES_PER_SECOND: u32 = 8;

/// The width and the height of a picture of the report, and of a frame, in CSS pixels.
const REPORT: (u32, u32) = (1200, 1000);
const MOTION: (u32, u32) = (1200, 730);

/// The time that a page has to draw itself, milliseconds of the page's clock.
const DRAWING_MS: u32 = 8_000;

/// Draws the pictures into `docs/`.
///
/// # Errors
/// A browser or `ffmpeg` is missing, or one of them fails.
pub fn run(args: &[String]) -> Result<()> {
    let binary = match args {
        [] => {
            steps::run(&mut steps::cargo(["build", "--release"]), "the program")?;
            steps::binary("roundhouse", "release")?
        }
        [flag, path] if flag == "--binary" => path.into(),
        _ => bail!("expected `pictures [--binary PATH]`, found {args:?}"),
    };
    let (root, room) = (crate::root(), tempfile::tempdir()?);
    let record = root.join(FRONT).join("race.jsonl.gz");
    let page = room.path().join("report.html");
    let mut report = Command::new(&binary);
    report.arg("report").arg(&record).arg("--html").arg(&page).stdout(Stdio::null());
    steps::run(&mut report, "build it")?;
    for (scheme, number) in [("dark", 0), ("light", 1)] {
        let picture = root.join(format!("docs/report-{scheme}.png"));
        let url = format!("file://{}", page.display());
        shoot(&url, REPORT, number, &picture)?;
    }
    let (recording, motion) =
        (root.join(FRONT).join("motion.json"), room.path().join("motion.html"));
    let mut explain = Command::new(&binary);
    explain.arg("explain").arg(&recording).arg("--page").arg(&motion).stdout(Stdio::null());
    steps::run(&mut explain, "build it")?;
    let end_ms = end_of(&motion)?;
    for frame in 0..FRAMES {
        let moment = end_ms * f64::from(frame) / f64::from(FRAMES - 1);
        let url = format!("file://{}#{moment:.2}", motion.display());
        let picture = room.path().join(format!("{frame:03}.png"));
        shoot(&url, MOTION, 1, &picture)?;
        eprint!("\rframe {} of {FRAMES}", frame + 1);
    }
    eprintln!();
    let rate = FRAMES_PER_SECOND.to_string();
    let filter = "scale=900:-1:flags=lanczos,split[a][b];[a]palettegen=max_colors=64[p];\
                  [b][p]paletteuse=dither=none";
    let mut film = Command::new("ffmpeg");
    film.args(["-loglevel", "error", "-y", "-framerate", &rate, "-i"]);
    film.arg(room.path().join("%03d.png")).args(["-vf", filter]);
    steps::run(film.arg(root.join("docs/motion.gif")), "install ffmpeg")
}

/// A picture of the page at `url`: scheme 0 is dark, 1 is light.
fn shoot(url: &str, (width, height): (u32, u32), scheme: u32, picture: &Path) -> Result<()> {
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    browser.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    browser.arg(format!("--window-size={width},{height}"));
    browser.arg(format!("--virtual-time-budget={DRAWING_MS}"));
    browser.arg(format!("--screenshot={}", picture.display())).arg(url);
    steps::run(browser.stdout(Stdio::null()).stderr(Stdio::null()), "install chromium")?;
    match picture.exists() {
        true => Ok(()),
        false => bail!("chromium drew no picture of {url}"),
    }
}

/// The end of the recording in a page of `explain --page`, milliseconds: that of its last engine.
fn end_of(page: &Path) -> Result<f64> {
    let text =
        std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let ends = text.split("\"end\":").skip(1);
    let ends = ends.filter_map(|rest| rest.split([',', '}']).next()?.parse::<f64>().ok());
    let last = ends.fold(0.0, f64::max);
    match last > 0.0 {
        true => Ok(last / 1e3),
        false => bail!("{} is not a recording: it names no end", page.display()),
    }
}
