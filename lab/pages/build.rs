//! Packs plotly.js, which the `plotly` crate carries at four and a half megabytes, so that the
//! binary holds it once and small.

use std::io::Write;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let tags = plotly::Plot::offline_js_sources();
    let script = plotly_js(&tags).expect("the first script of the plotly crate is plotly.js");
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(script.as_bytes()).expect("memory is writable");
    let packed = packer.finish().expect("memory is writable");
    let folder = env::var_os("OUT_DIR").expect("cargo names the folder");
    fs::write(PathBuf::from(folder).join("plotly.js.gz"), packed).expect("cargo made the folder");
}

/// The first of two scripts; the second is MathJax, which no chart here needs.
fn plotly_js(tags: &str) -> Option<&str> {
    let (_, rest) = tags.split_once('>')?;
    let (script, _) = rest.split_once("</script>")?;
    script.contains("plotly.js v").then_some(script)
}
