#[test]
fn words_are_counted_however_the_bytes_arrive() {
    let script = "> a\n< 1\n> b\n< 1\n> a\n< 2\n";
    roundhouse::sim::check(&{{crate_name}}::service(), script, 200);
}
