//! What the builders of options share.

use quorlock_core::Error;

/// What is built, and the first mistake made with it.
#[derive(Default)]
pub(crate) struct Options<T> {
    built: T,
    mistake: Option<Error>,
}

impl<T> Options<T> {
    pub(crate) fn built(&self) -> Result<&T, Error> {
        self.mistake.clone().map_or(Ok(&self.built), Err)
    }

    /// Takes what C has given for an option.
    pub(crate) fn set<V>(
        &mut self, given: impl FnOnce() -> Result<V, Error>, take: impl FnOnce(&mut T, V),
    ) -> Result<(), Error> {
        let value = given().inspect_err(|mistake| {
            self.mistake.get_or_insert(mistake.clone());
        })?;
        take(&mut self.built, value);
        Ok(())
    }
}
