//! The links that `roundhouse names` makes, used as the course used its programs.

use std::process::Command;

use crate::server::{BINARY, run};
use testkit::Folder;

#[test]
fn links_behave_as_their_names() {
    let folder = Folder::new();
    let dir = folder.path().to_str().expect("a temporary path is text");
    let ran = run(Command::new(BINARY).args(["names", dir]), "").success();
    assert_eq!(ran.out.lines().filter(|line| line.ends_with(": made")).count(), 3, "{}", ran.out);
    for name in ["stockserver", "stockclient", "multiclient"] {
        let ran = run(Command::new(folder.path().join(name)).arg("--help"), "").success();
        assert!(ran.out.contains(&format!("Usage: {name} ")), "{}", ran.out);
        run(&mut Command::new(folder.path().join(name)), "")
            .exits(2)
            .says(&format!("Usage: {name} "));
        let ran = run(Command::new(BINARY).args([name, "--help"]), "").success();
        assert!(ran.out.contains(&format!("Usage: roundhouse {name} ")), "{}", ran.out);
    }
    let again = run(Command::new(BINARY).args(["names", dir]), "");
    assert_eq!(again.out.matches("was there already").count(), 3, "{}", again.out);
    std::fs::remove_file(folder.path().join("multiclient")).expect("our own link");
    std::fs::write(folder.path().join("multiclient"), "mine").expect("a file");
    run(Command::new(BINARY).args(["names", dir]), "").exits(1).says("move it away first");
    assert_eq!(folder.text("multiclient"), "mine");
}
