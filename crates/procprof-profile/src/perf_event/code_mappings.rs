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
        let place = mapped.place_of(address);
        let known = self.by_image.entry(mapped.image).or_default();
        let within = |mapping: &MappedCode| {
            place >= mapping.file_offset && place - mapping.file_offset < mapping.range.end - mapping.range.start
        };
        let number = known.iter().copied().find(|number| within(&self.all[*number as usize]));
        let number = number.unwrap_or_else(|| {
            let number = self.all.len() as u32;
            known.push(number);
            self.all.push(mapped.clone());
            number
        });
        let mapping = &self.all[number as usize];
        (number, mapping.range.start + (place - mapping.file_offset))
    }

    /// All mappings, by number: the code where its image was first seen.
    pub fn all(&self) -> &[MappedCode] {
        &self.all
    }
}
