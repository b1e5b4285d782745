use std::time::Duration;

use super::*;

#[test]
fn values_are_written_as_they_are_read() {
    fn check<T: Value + PartialEq + std::fmt::Debug>(text: &str, value: T) {
        assert_eq!(T::read(text, &(0..=u64::MAX)), Ok(value));
        let written = T::read(text, &(0..=u64::MAX)).expect("just read").write();
        assert_eq!(written.as_deref(), Some(text));
    }
    check("1h", Duration::from_secs(3600));
    check("90s", Duration::from_secs(90));
    check("1500ms", Duration::from_millis(1500));
    check("1500ns", Duration::from_nanos(1500));
    check("0s", Duration::ZERO);
    check("on", true);
    check("17", 17_u16);
    check("17", Some(17_usize));
}

#[test]
fn numbers_outside_their_bounds_are_refused_with_the_bounds() {
    let words = |text| u32::read(text, &(16..=64)).expect_err("refused");
    assert_eq!(words("65"), "expected a number from 16 to 64, found `65`");
    assert_eq!(words("many"), "expected a number from 16 to 64, found `many`");
    let most = u16::read("65536", &(0..=u64::MAX)).expect_err("refused");
    assert_eq!(most, "expected a number from 0 to 65535, found `65536`");
    assert!(power_of_two("3", &(0..=9)).is_err() && power_of_two("64", &(0..=9)) == Ok(64));
    assert_eq!(none_at_zero("0", &(0..=9)), Ok(None));
}

#[test]
fn words_hold_what_was_packed() {
    assert!(Duration::unpack(Duration::MAX.pack()) > Duration::from_secs(1 << 33));
    assert_eq!(Option::<usize>::unpack(None.pack()), None);
    assert_eq!(Option::<usize>::unpack(Some(17).pack()), Some(17));
}
