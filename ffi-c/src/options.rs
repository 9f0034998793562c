//! What the builders of options share.

use std::panic::Location;

use quorlock_core::Error;

/// What is built, and the mistakes made with it that were not made good: of each setter, which its place in the source
/// names, the last.
#[derive(Default)]
pub(crate) struct Options<T> {
    built: T,
    mistakes: Vec<(&'static Location<'static>, Error)>,
}

impl<T> Options<T> {
    /// What was built, or the oldest mistake.
    pub(crate) fn built(&self) -> Result<&T, Error> {
        self.mistakes.first().map_or(Ok(&self.built), |(_, mistake)| Err(mistake.clone()))
    }

    /// Takes what C has given for an option, by that setter.
    pub(crate) fn set<V>(
        &mut self, setter: &'static Location<'static>, given: impl FnOnce() -> Result<V, Error>,
        take: impl FnOnce(&mut T, V),
    ) -> Result<(), Error> {
        let given = given();
        self.mistakes.retain(|(made, _)| *made != setter);
        let value = given.inspect_err(|mistake| self.mistakes.push((setter, mistake.clone())))?;
        take(&mut self.built, value);
        Ok(())
    }
}
