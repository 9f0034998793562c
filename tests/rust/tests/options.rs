//! Options as data: `cargo test -p quorlock-tests --features serde --test options`.
#![cfg(feature = "serde")]

use std::time::Duration;

use quorlock::{ClientOptions, LockOptions, blocking};

#[test]
fn options_have_their_names_in_a_file() {
    let text = r#"{"nodes":["memory://options"],"max_ttl":90.0,"drift":0.02,"namespace":"mine:","restart_guard":"off","ttl":1.5,"wait":null,"renew":false,"max_hold":60.0,"layout":"plain","max_waiters":3,"group":"orders"}"#;
    let options: ClientOptions = serde_json::from_str(text).unwrap();
    assert_eq!(options.wait, Some(None));
    assert_eq!(options.ttl, Some(Duration::from_millis(1500)));
    assert_eq!(serde_json::to_string(&options).unwrap(), text);
    assert_eq!(format!("{options:?}"), "ClientOptions { .. }");
    let client = options.builder().build().unwrap();
    let lock = format!("{:?}", client.lock("a"));
    for part in ["ttl: 1.5s", "wait: None", "renew: false"] {
        assert!(lock.contains(part), "{part}: {lock}");
    }
    let given = r#"{"shared":true,"ttl":2,"label":"me"}"#;
    let options: LockOptions = serde_json::from_str(given).unwrap();
    let lock = options.clone().apply(client.lock("a"));
    assert!(blocking::wait(lock.acquire()).unwrap().is_shared());
    // What is not set stays as the client has it.
    assert_eq!(
        serde_json::from_str::<LockOptions>("{}").unwrap(),
        LockOptions::default()
    );
    for (wrong, why) in [
        (r#"{"tll":1}"#, "unknown field `tll`"),
        (
            r#"{"redis://:s3cret@h":1}"#,
            "unknown field text of 17 characters, expected",
        ),
        (
            r#"{"ttl":"redis://:s3cret@h"}"#,
            "invalid type: string, expected",
        ),
        (
            r#"{"label":["s3cret"]}"#,
            "invalid type: sequence, expected a string",
        ),
        (r#"{"ttl":-1}"#, "-1 is no time"),
        (r#"{"ttl":null}"#, "null"),
        (
            r#"{"layout":"odd"}"#,
            "layout is `odd`: give plain or redisson",
        ),
    ] {
        let error = serde_json::from_str::<LockOptions>(wrong).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
