//! The options of a server, from a file.

use crate::arms::{Arm, EPOLL, PORT};
use crate::harness::{Folder, Plan};

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
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/server.conf");
    let (_folder, data) = Folder::with("stock.txt", BOOK);
    let server = EPOLL.stock(&data).with(&["--config", example]).start();
    let mut client = server.client();
    client.send("show\n");
    let block = client.exact(8192);
    assert!(block.starts_with(BOOK.as_bytes()) && block.ends_with(&[0]), "a padded block");
}

/// The settings of the portfolio's server, as they were published, start its echo on a completion
/// port.
#[test]
fn the_published_settings_start_the_echo() {
    let settings = "// \u{c11c}\u{bc84} \u{c124}\u{c815}\r\nipAddress = \"0.0.0.0\"\r\n\
        serverPort = 6000\r\n\r\nworkerThread = 4\r\nrunningThread = 2\r\nnoDelay = 0\r\n\
        maxClient = 200\r\n";
    let text: Vec<u8> =
        format!("\u{feff}{settings}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    PORT.run(|arm| {
        let folder = Folder::new();
        let config = folder.file("serverSetting.txt", &text);
        let config = config.to_str().expect("a path of ours");
        // Another test may have port 6000, and the arm has a number of separate workers.
        let arm = Arm { workers: None, ..*arm };
        let plan = Plan::new(&arm, "echo").with(&["--config", config, "--port", "0"]);
        let (server, ready) = plan.announce();
        assert_eq!((&ready["workers"], &ready["running"]), (&4.into(), &2.into()), "{ready}");
        let mut client = server.client();
        client.send(b"\x08\0\x01\0\0\0\0\0\0\0");
        let heard = client.exact(20);
        assert_eq!(heard, b"\x08\0\xff\xff\xff\xff\xff\xff\xff\x7f\x08\0\x01\0\0\0\0\0\0\0");
        server.stop();
    });
}
