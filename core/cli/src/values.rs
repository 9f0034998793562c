//! How a value of a flag is read, and given to what it is for.

use std::error::Error;
use std::fmt::Display;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Hands on what was given: `always` as it is, `given` where it is.
macro_rules! on {
    ($from:ident, $to:ident: $($how:ident $option:ident;)*) => {{
        $(let $to = on!(@ $how $from $to $option);)*
        $to
    }};
    (@ always $from:ident $to:ident $option:ident) => {
        $to.$option($from.$option)
    };
    (@ given $from:ident $to:ident $option:ident) => {
        match $from.$option.clone() {
            Some(value) => $to.$option(value),
            None => $to,
        }
    };
}
pub(crate) use on;

/// Reads a whole number within its bounds.
pub fn number<T: FromStr + PartialOrd + Display>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    let within = |number: &T| *number >= least && *number <= most;
    let number = text.parse().ok().filter(within);
    number.ok_or_else(|| format!("give {least} to {most}"))
}

/// Reads one of these words.
pub fn word<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse())
}
