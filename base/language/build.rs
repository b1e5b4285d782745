//! Packs the catalogue, so that a binary that speaks two languages stays small.

fn main() {
    println!("cargo::rerun-if-changed=lang/ko.po");
    #[cfg(feature = "korean")]
    pack();
}

#[cfg(feature = "korean")]
fn pack() {
    use std::io::Write;
    use std::path::PathBuf;
    use std::{env, fs};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    let text = fs::read("lang/ko.po").expect("the catalogue stands next to this file");
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(&text).expect("memory is writable");
    let packed = packer.finish().expect("memory is writable");
    let folder = env::var_os("OUT_DIR").expect("cargo names the folder");
    fs::write(PathBuf::from(folder).join("ko.po.gz"), packed).expect("cargo made the folder");
}
