//! Packs the catalogue, so that a binary that speaks two languages stays small.

use std::io::Write;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() {
    println!("cargo::rerun-if-changed=lang/ko.po");
    let text = fs::read("lang/ko.po").expect("the catalogue stands next to this file");
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(&text).expect("memory is writable");
    let packed = packer.finish().expect("memory is writable");
    let folder = env::var_os("OUT_DIR").expect("cargo names the folder");
    fs::write(PathBuf::from(folder).join("ko.po.gz"), packed).expect("cargo made the folder");
}
