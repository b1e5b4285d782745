//! The site that most tests of this suite serve.

use testkit::Folder;

/// Bytes of `/great`.
pub const GREAT: usize = 10 << 20;

/// A folder with `a.txt`, ten digits, and `great`, no two pages of which are alike.
pub fn site() -> Folder {
    let folder = Folder::new();
    folder.file("a.txt", b"0123456789");
    folder.file("great", great());
    folder
}

/// The bytes of `/great`. Each group of four is its own offset, so a piece that comes twice, late
/// or not at all is noticed.
pub fn great() -> Vec<u8> {
    (0..GREAT as u32 / 4).flat_map(u32::to_le_bytes).collect()
}
