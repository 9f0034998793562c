//! The value by which a lock is held, and what its text says.

use std::fmt;
use std::sync::Arc;

use crate::token::Token;

/// The value by which a lock is held: the token, a dot, and the label. `Debug` hides
/// it, for it holds a token.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub Arc<[u8]>);

impl Value {
    /// What tells one lease from another: the token and the dot of a value of ours, for its
    /// label may change; else all of it.
    pub fn identity(&self) -> &[u8] {
        if self.is_ours() {
            &self.0[..Token::LEN + 1]
        } else {
            &self.0
        }
    }

    /// Whether both are of one lease, whatever their labels.
    pub fn is_of_one_lease_with(&self, other: &Value) -> bool {
        self.identity() == other.identity()
    }

    /// Whether this value proves that its bearer has the lease of `held`: it has the same token. An
    /// equal text that is none of our values proves nothing, for any client may guess or read that.
    pub fn proves(&self, held: &Value) -> bool {
        self.is_ours() && self.is_of_one_lease_with(held)
    }

    /// The value of the same lease with this label.
    pub fn labelled(&self, label: &str) -> Value {
        Value([self.identity(), label.as_bytes()].concat().into())
    }

    /// Whether a client of ours has made it: 40 lower-case hex digits and a dot. Other
    /// Redlock clients store 40 such digits too, but no dot behind them.
    pub fn is_ours(&self) -> bool {
        self.label().is_some()
    }

    /// What stands behind the token and the dot, maybe nothing; `None` where the value
    /// is not ours.
    pub fn label(&self) -> Option<&[u8]> {
        let (token, rest) = self.0.split_at_checked(Token::LEN)?;
        let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        token.iter().all(digit).then(|| rest.strip_prefix(b"."))?
    }
}

impl Value {
    /// The fence that was proposed for it when its token was drawn, if it is ours, where nodes have counted as far.
    pub(crate) fn proposed(&self, counted: u64) -> Option<u64> {
        self.is_ours().then(|| Token::fence_of(&self.0, counted))?
    }

    /// The `TIME` in µs at which its token was drawn, if it is ours and its client knew it.
    pub fn since(&self) -> Option<u64> {
        self.is_ours().then(|| Token::time_of(&self.0))?
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_told_by_its_token_and_a_strangers_value_by_all_of_it() {
        let token = "0123456789abcdef".repeat(3)[..40].to_owned();
        let value = |text: &str| Value(text.as_bytes().into());
        let ours = value(&format!("{token}.a.b"));
        assert!(ours.is_of_one_lease_with(&ours.labelled("")));
        assert_eq!(ours.labelled("c"), value(&format!("{token}.c")));
        let other = token.replace('0', "1");
        assert!(ours.proves(&ours.labelled("")));
        for stranger in [
            &token,
            &other,
            &format!("{other}.a.b"),
            &format!("{token}a.b"),
        ] {
            let stranger = value(stranger);
            assert!(!ours.is_of_one_lease_with(&stranger) && !ours.proves(&stranger));
        }
        let (one, two) = (value("abc.d"), value("abc.e"));
        assert!(one.is_of_one_lease_with(&one) && !one.is_of_one_lease_with(&two));
        assert!(!one.proves(&one));
    }

    #[test]
    fn the_dot_behind_forty_digits_is_what_makes_a_value_ours() {
        let label = |text: &str| {
            let value = Value(text.as_bytes().into());
            assert_eq!(value.is_ours(), value.label().is_some());
            value.label().map(<[u8]>::to_vec)
        };
        let token = "0123456789abcdef".repeat(3)[..40].to_owned();
        assert_eq!(label(&format!("{token}.")), Some(vec![]));
        assert_eq!(label(&format!("{token}.a.b")), Some(b"a.b".to_vec()));
        let upper = token.to_uppercase();
        for foreign in [
            token.clone(),
            format!("{token}0."),
            format!("{}.", &token[1..]),
            format!("{upper}."),
            format!("{token}:x"),
            String::new(),
        ] {
            assert_eq!(label(&foreign), None, "{foreign}");
        }
    }
}
