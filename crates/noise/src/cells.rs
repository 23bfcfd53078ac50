//! A table by character, in pages of 256, for look-ups in inner loops.

/// Values by character.
pub(crate) struct Cells<T> {
    /// Positions in `values`, plus 1; 0 for none.
    pages: Vec<Option<Box<[u16; 256]>>>,
    values: Vec<T>,
}

impl<T> Default for Cells<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl<T: Default> Cells<T> {
    /// The value of a character, which is created if it has none.
    pub(crate) fn entry(&mut self, c: char) -> &mut T {
        let (page, cell) = (c as usize >> 8, c as usize & 0xff);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let at = &mut self.pages[page].get_or_insert_with(|| Box::new([0; 256]))[cell];
        if *at == 0 {
            self.values.push(T::default());
            *at = self.values.len() as u16;
        }
        &mut self.values[usize::from(*at) - 1]
    }
}

impl Cells<Vec<char>> {
    /// The other characters of the sets that a character is in. Sets are separated by white space.
    pub(crate) fn of_sets(sets: &str) -> Self {
        let mut table = Self::default();
        for set in sets.split_whitespace() {
            for c in set.chars() {
                table.entry(c).extend(set.chars().filter(|other| *other != c));
            }
        }
        table
    }
}

impl<T> Cells<T> {
    pub(crate) fn get(&self, c: char) -> Option<&T> {
        let page = self.pages.get(c as usize >> 8)?.as_ref()?;
        self.values.get(usize::from(page[c as usize & 0xff]).checked_sub(1)?)
    }
}
