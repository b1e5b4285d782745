//! The template of a new service is the one that docs/own-service.md writes, and its test passes.

#[path = "../../../templates/service/src/lib.rs"]
mod template;

const PAGE: &str = include_str!("../../../docs/own-service.md");
const LIBRARY: &str = include_str!("../../../templates/service/src/lib.rs");
const LAWS: &str = include_str!("../../../templates/service/tests/laws.rs");

#[test]
fn the_template_keeps_the_laws() {
    let script = LAWS.split('"').nth(1).expect("a script").replace("\\n", "\n");
    roundhouse::sim::check(&template::service(), &script, 200);
}

#[test]
fn the_page_shows_the_template() {
    for part in LIBRARY.split("\n\n").filter(|part| part.contains("fn ") || part.contains("share!"))
    {
        let code: String = part.lines().filter(|line| !line.starts_with("///")).collect();
        let page: String = PAGE.lines().collect();
        assert!(page.contains(&code), "docs/own-service.md has no\n{part}");
    }
}

#[test]
fn the_readme_shows_the_example_hello() {
    let readme = include_str!("../../../README.md").split("```rust\n").nth(1).expect("a block");
    let readme = readme.split("```").next().unwrap_or_default();
    assert!(include_str!("../examples/hello.rs").ends_with(readme), "{readme}");
}
