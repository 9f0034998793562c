//! A line of a scenario, taken apart, and the values that its words stand for.

use std::time::Duration;

/// A line, taken apart.
pub struct Line<'a> {
    pub words: Vec<&'a str>,
    pub options: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    pub fn word(&self, index: usize) -> Result<&'a str, String> {
        let missing = || format!("expected a word after {:?}", self.words[0]);
        self.words.get(index).copied().ok_or_else(missing)
    }

    pub fn millis(&self, index: usize) -> Result<Duration, String> {
        millis(self.word(index)?)
    }

    pub fn option(&self, name: &str) -> Option<&'a str> {
        self.options
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| *v)
    }

    pub fn only(&self, known: &[&str]) -> Result<(), String> {
        match self.options.iter().find(|(n, _)| !known.contains(n)) {
            Some((name, _)) => Err(format!("expected no option {name}")),
            None => Ok(()),
        }
    }
}

pub fn millis(text: &str) -> Result<Duration, String> {
    let wrong = |_| format!("expected milliseconds, got {text}");
    text.parse().map(Duration::from_millis).map_err(wrong)
}

pub fn limit(text: &str) -> Result<Option<Duration>, String> {
    if text == "none" {
        return Ok(None);
    }
    millis(text).map(Some)
}

pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("expected on or off, got {other}")),
    }
}

pub fn number(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("expected a number, got {text}"))
}

pub fn fraction(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| format!("expected a fraction, got {text}"))
}

/// `%XX` is one byte; `%` alone is the empty text.
pub fn bytes(text: &str) -> Vec<u8> {
    if text == "%" {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|h| std::str::from_utf8(h).ok());
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) if first == b'%' => {
                found.push(byte);
                rest = &tail[2..];
            }
            _ => {
                found.push(first);
                rest = tail;
            }
        }
    }
    found
}

pub fn string(text: &str) -> String {
    String::from_utf8_lossy(&bytes(text)).into_owned()
}
