//! The mappings of a profile of several processes: code of an image has one address, wherever processes have mapped it.

use foldhash::HashMap;

use super::{ImageId, MappedCode};

/// The mappings of a profile.
#[derive(Debug, Default)]
pub struct CodeMappings {
    all: Vec<MappedCode>,
    by_image: HashMap<ImageId, Vec<u32>>,
}

impl CodeMappings {
    /// The number of the mapping, and the address in it, of an address in mapped code.
    pub fn place(&mut self, mapped: &MappedCode, address: u64) -> (u32, u64) {
        // Places wrap at the end of what 64 bits can number, as records of a damaged file have them.
        let place = mapped.place_of(address);
        let known = self.by_image.entry(mapped.image).or_default();
        let within =
            |mapping: &MappedCode| place.wrapping_sub(mapping.file_offset) < mapping.range.end - mapping.range.start;
        let number = known.iter().copied().find(|number| within(&self.all[*number as usize]));
        let number = number.unwrap_or_else(|| {
            let number = self.all.len() as u32;
            known.push(number);
            self.all.push(mapped.clone());
            number
        });
        let mapping = &self.all[number as usize];
        (number, mapping.range.start + place.wrapping_sub(mapping.file_offset))
    }

    /// All mappings, by number: the code where its image was first seen.
    pub fn all(&self) -> &[MappedCode] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_at_the_end_of_all_offsets_has_its_address() {
        let code = |start: u64, file_offset| MappedCode { range: start..start + 16, file_offset, image: ImageId(0) };
        let mut mappings = CodeMappings::default();
        assert_eq!(mappings.place(&code(4096, u64::MAX), 4100), (0, 4100));
        assert_eq!(mappings.place(&code(8192, 3), 8192), (0, 4100));
        assert_eq!(mappings.place(&code(8192, 20), 8192), (1, 8192));
    }
}
