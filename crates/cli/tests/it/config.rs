//! The options of a server, from a file.

use crate::arms::EPOLL;
use crate::harness::Folder;

const BOOK: &str = "10 4 100\n2 9 20\n";

/// The reply to `show` of a server whose options are in a file called `name`.
fn shown(name: &str, text: impl AsRef<[u8]>, flags: &[&str]) -> String {
    let (folder, data) = Folder::with("stock.txt", BOOK);
    let config = folder.file(name, text);
    let config = config.to_str().expect("a path of ours");
    let server = EPOLL.stock(&data).with(&["--config", config]).with(flags).start();
    server.show()
}

#[test]
fn options_come_from_a_file_and_flags_win() {
    let settings = "// \u{c11c}\u{bc84}\r\norder = \"sorted\" /* by id */\r\nmaxClient = 20\r\n";
    let sorted = "2 9 20\n10 4 100\n";
    assert_eq!(shown("server.txt", settings, &[]), sorted);
    let utf16: Vec<u8> =
        format!("\u{feff}{settings}").encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(shown("server.txt", utf16, &[]), sorted);
    assert_eq!(shown("server.toml", "order = \"sorted\"\nbook = \"bst\"\n", &[]), sorted);
    assert_eq!(shown("server.txt", settings, &["--order", "file"]), BOOK);
}

#[test]
fn the_example_is_one() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/server.conf");
    let (_folder, data) = Folder::with("stock.txt", BOOK);
    let server = EPOLL.stock(&data).with(&["--config", example]).start();
    let mut client = server.client();
    client.send("show\n");
    let block = client.exact(8192);
    assert!(block.starts_with(BOOK.as_bytes()) && block.ends_with(&[0]), "a padded block");
}
