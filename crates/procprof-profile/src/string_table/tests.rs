use super::{StringIndex, StringTable};
use crate::StringId;

#[test]
fn equal_texts_get_one_id_and_the_first_counts() {
    let mut strings = StringTable::default();
    for text in ["a", "b", "a"] {
        strings.push(text).unwrap();
    }
    let mut index = StringIndex::from_table(&strings);
    let ids = ["", "a", "b", "c", "c"].map(|text| index.intern(&mut strings, text).unwrap());
    assert_eq!(ids, [0, 1, 2, 4, 4].map(StringId));
    assert_eq!(strings.iter().collect::<Vec<_>>(), ["", "a", "b", "a", "c"]);
}
