//! A line of the log: its template, and apart from that the values that fill it.

use std::fmt;

/// A line of the log. All lines of one [kind](LogEvent::name) have the same
/// [template](LogEvent::template), by which a log can group them; what differs between them
/// stands in the [fields](LogEvent::fields).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    name: &'static str,
    template: &'static str,
    fields: Vec<(&'static str, String)>,
    message: String,
}

impl LogEvent {
    /// For [`event!`], which sees that they fit each other.
    pub(crate) fn new(
        name: &'static str,
        template: &'static str,
        fields: Vec<(&'static str, String)>,
        message: String,
    ) -> LogEvent {
        LogEvent {
            name,
            template,
            fields,
            message,
        }
    }

    /// What kind of thing it tells of, in one word: `lease_lost`, `node_unreached`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The text with the names of the fields in braces, the same for all lines of its kind:
    /// ``the lease of the lock `{lock}` is lost: {reason}``.
    pub fn template(&self) -> &'static str {
        self.template
    }

    /// What differs, by name: `lock` is the name of a lock, `node` a node as in errors, `reason`
    /// why.
    pub fn fields(&self) -> &[(&'static str, String)] {
        &self.fields
    }

    /// The text of a field, where the line has it.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All of it as one text.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A line of the log: its name, its template, and a value for each name in that.
macro_rules! event {
    ($name:literal, $template:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        $(let $field: String = $crate::foreign::message($value.to_string());)*
        $crate::event::LogEvent::new(
            $name,
            $template,
            vec![$((stringify!($field), $field.clone())),*],
            format!($template $(, $field = $field)*),
        )
    }};
}
pub(crate) use event;

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_has_its_parts_apart() {
        let event = event!(
            "lost",
            "the lock `{lock}` is lost: {reason}",
            lock = "a",
            reason = 1
        );
        assert_eq!(event.to_string(), "the lock `a` is lost: 1");
        assert_eq!(event.template(), "the lock `{lock}` is lost: {reason}");
        assert_eq!(
            (event.field("reason"), event.field("node")),
            (Some("1"), None)
        );
    }
}
