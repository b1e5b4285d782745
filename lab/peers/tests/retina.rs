//! A client for cameras, which others wrote in Rust, receives the media of `roundhouse serve
//! media`. It is strict where players are lenient: numbers and timestamps must begin as `RTP-Info`
//! announces, reports must match their senders, and units must be complete.
//!
//! The films are made by ffmpeg, and the server is the binary that was built with the tests; the
//! test reports it if one of them is missing.

use std::path::Path;
use std::pin::Pin;
use std::process::Command;

use futures_core::Stream as _;
use retina::client::{
    Demuxed, InitialTimestampPolicy, PlayOptions, Session, SessionOptions, SetupOptions, Transport,
};
use retina::codec::{CodecItem, FrameFormat};
use testkit::{Folder, PATIENCE, Server, has, skip};

/// Runs a program that has to succeed, and returns its stdout.
fn run(program: &str, args: &[&str]) -> String {
    testkit::run(Command::new(program).args(args)).success().out
}

/// A folder with two films, and a server of it.
struct Media {
    _server: Server,
    folder: Folder,
    url: String,
}

impl Media {
    fn open() -> Option<Media> {
        let tests = std::env::current_exe().expect("our own path");
        let binary = tests.parent()?.parent()?.join("roundhouse");
        if !binary.is_file() {
            skip("roundhouse next to the tests");
            return None;
        }
        if !has("ffmpeg") {
            return None;
        }
        let folder = Folder::new();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (film, tone) = (at("film.mp4"), at("tone.wav"));
        let sources = "-v error -y -f lavfi -i testsrc2=size=320x240:rate=25 -f lavfi \
            -i sine=sample_rate=48000 -map 0 -map 1 -t 3 -c:v libx264 -preset ultrafast -bf 2 \
            -g 25 -pix_fmt yuv420p -c:a aac";
        let second = "-map 1 -t 3 -ar 8000 -c:a pcm_mulaw";
        let mut args: Vec<&str> = sources.split_whitespace().collect();
        args.push(&film);
        args.extend(second.split_whitespace());
        args.push(&tone);
        run("ffmpeg", &args);
        let mut command = Command::new(binary);
        command.args(["serve", "media", "--port", "0", "--engine", "epoll", "--admin", "none"]);
        let server = Server::start(command.arg(folder.path()));
        let url = format!("rtsp://{}", server.address);
        Some(Media { _server: server, folder, url })
    }
}

/// The sizes of a track's packets in the file.
fn sizes(film: &Path, track: &str) -> Vec<usize> {
    let shown = ["-v", "error", "-show_entries", "packet=size", "-of", "csv=p=0"];
    let args = [&shown[..], &["-select_streams", track, film.to_str().expect("text")]].concat();
    let sizes = run("ffprobe", &args);
    let number = |line: &str| line.split(',').next().and_then(|it| it.trim().parse().ok());
    sizes.lines().filter_map(number).collect()
}

/// The received frames of video and audio, with their presentation times.
#[derive(Default)]
struct Heard {
    pictures: Vec<(usize, f64)>,
    sound: Vec<(Vec<u8>, f64)>,
    lost: u32,
}

async fn next(demuxed: &mut Demuxed) -> Option<Result<CodecItem, retina::Error>> {
    std::future::poll_fn(|cx| Pin::new(&mut *demuxed).poll_next(cx)).await
}

/// Plays `url` until this many video and audio frames have arrived.
async fn play(url: &str, transport: Transport, wanted: (usize, usize)) -> Heard {
    let target = url.parse().expect("a URL");
    let mut session = Session::describe(target, SessionOptions::default()).await.expect(url);
    for track in 0..session.streams().len() {
        let options =
            SetupOptions::default().transport(transport.clone()).frame_format(FrameFormat::MP4);
        session.setup(track, options).await.expect(url);
    }
    let options = PlayOptions::default().initial_timestamp(InitialTimestampPolicy::Require);
    let mut demuxed = session.play(options).await.expect(url).demuxed().expect(url);
    let mut heard = Heard::default();
    while heard.pictures.len() < wanted.0 || heard.sound.len() < wanted.1 {
        let Some(item) = next(&mut demuxed).await else { break };
        match item.expect(url) {
            CodecItem::VideoFrame(frame) => {
                heard.lost += u32::from(frame.loss());
                heard.pictures.push((frame.data().len(), frame.timestamp().elapsed_secs()));
            }
            CodecItem::AudioFrame(frame) => {
                heard.lost += u32::from(frame.loss());
                heard.sound.push((frame.data().to_vec(), frame.timestamp().elapsed_secs()));
            }
            _ => {}
        }
    }
    heard
}

async fn check(server: &Media, transport: Transport) {
    let film = server.folder.path().join("film.mp4");
    let (pictures, sound) = (sizes(&film, "v"), sizes(&film, "a"));
    let wanted = (pictures.len(), sound.len());
    let heard = play(&format!("{}/film.mp4", server.url), transport, wanted).await;
    assert_eq!(heard.lost, 0);
    let got: Vec<usize> = heard.pictures.iter().map(|(len, _)| *len).collect();
    assert_eq!(got, pictures, "pictures, whole, in the order of the file");
    let got: Vec<usize> = heard.sound.iter().map(|(bytes, _)| bytes.len()).collect();
    assert_eq!(got, sound, "units of sound");
    let steps = heard.sound.windows(2).map(|pair| pair[1].1 - pair[0].1);
    let far = steps.map(|step| (step - 1024.0 / 48_000.0).abs()).fold(0.0, f64::max);
    assert!(far < 1e-9, "units of sound are equally long: {far}");
}

#[test]
fn retina_takes_the_films_for_what_they_are() {
    let Some(server) = Media::open() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let tone = async {
            let url = format!("{}/tone.wav", server.url);
            let heard = play(&url, Transport::Udp(Default::default()), (0, 3 * 50)).await;
            let file = std::fs::read(server.folder.path().join("tone.wav")).expect("our own film");
            let got: Vec<u8> = heard.sound.into_iter().flat_map(|(bytes, _)| bytes).collect();
            assert!(file.ends_with(&got) && got.len() == 3 * 8000, "{} bytes", got.len());
        };
        let tcp = check(&server, Transport::Tcp(Default::default()));
        let udp = check(&server, Transport::Udp(Default::default()));
        let all = async { tokio::join!(tone, tcp, udp) };
        tokio::time::timeout(PATIENCE, all).await.expect("all to come to their ends");
    });
}
