//! A profile under construction from stacks of raw addresses: what the decoders of the address-only formats share.
//!
//! It takes at most about 32 bytes for each byte of text or binary input.

use foldhash::HashMap;

use super::Limits;
use super::go_comments::GoComments;
use super::legacy_frames::LegacyFrames;
use crate::text::{Cursor, Line, OddLines};
use crate::{Addr, Addresses, Error, Label, Location, LocationId, Profile, ProfileBuilder, Result, maps};

/// Collects samples whose frames are addresses.
pub(crate) struct RawStacks {
    pub(crate) builder: ProfileBuilder,
    format: &'static str,
    depth: usize,
    locations: HashMap<u64, LocationId>,
    stack: Vec<LocationId>,
    /// Lines of the text that are left out.
    pub(crate) odd: OddLines,
    comments: GoComments,
}

impl RawStacks {
    /// No samples yet; `uninteresting` are the frames that the profile has its readers cut.
    pub(crate) fn new(
        format: &'static str,
        sample_types: &[(&str, &str)],
        addresses: Addresses,
        uninteresting: &LegacyFrames,
        limits: &Limits,
    ) -> RawStacks {
        let mut builder = ProfileBuilder::new(sample_types);
        uninteresting.set(&mut builder);
        builder.parts_mut().addresses = addresses;
        RawStacks {
            builder,
            format,
            depth: limits.depth,
            locations: HashMap::default(),
            stack: Vec::new(),
            odd: OddLines::default(),
            comments: GoComments::default(),
        }
    }

    /// Makes room for that many samples and frames in all.
    pub(crate) fn reserve(&mut self, samples: usize, frames: usize) {
        let parts = self.builder.parts_mut();
        parts.stacks.reserve_exact(frames);
        parts.stack_ends.reserve_exact(samples);
        parts.values.reserve_exact(samples * parts.sample_types.len());
    }

    /// Forgets the current stack.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.stack.clear();
    }

    /// The location of an address.
    #[inline]
    pub(crate) fn location(&mut self, address: u64) -> LocationId {
        match self.locations.get(&address) {
            Some(id) => *id,
            None => {
                let id = self.builder.location(Location { address: Addr(address), ..Location::default() }, &[]);
                self.locations.insert(address, id);
                id
            }
        }
    }

    /// Makes these locations, of which there are not too many, the current stack.
    #[inline]
    pub(crate) fn set(&mut self, stack: impl Iterator<Item = LocationId>) {
        self.stack.clear();
        self.stack.extend(stack);
    }

    /// Whether the current stack is empty.
    pub(crate) fn is_bare(&self) -> bool {
        self.stack.is_empty()
    }

    /// Adds a frame at the root's end of the current stack.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past the depth limit.
    #[inline]
    pub(crate) fn push(&mut self, address: u64) -> Result<()> {
        if self.stack.len() == self.depth {
            return Err(Error::TooLarge { format: self.format, what: "frames of a stack", limit: self.depth as u64 });
        }
        let id = self.location(address);
        self.stack.push(id);
        Ok(())
    }

    /// Makes the rest of a line, `0x…` numbers between blanks, the current stack; the line ends the input only when
    /// whole.
    ///
    /// # Errors
    /// [`Error::Malformed`] for anything else, [`Error::Truncated`] when the input ends with the line,
    /// [`Error::TooLarge`] past the depth limit.
    #[inline]
    pub(crate) fn read_stack(&mut self, mut cursor: Cursor<'_>, line: &Line<'_>) -> Result<()> {
        self.clear();
        if line.is_cut {
            return Err(line.error(self.format, "a stack of addresses"));
        }
        cursor.skip_blanks();
        while !cursor.is_done() {
            let address = cursor.address().ok_or_else(|| line.error(self.format, "an address such as 0x4005d0"))?;
            self.push(address)?;
            cursor.skip_blanks();
        }
        Ok(())
    }

    /// Adds a sample with the current stack, which stays.
    #[inline]
    pub(crate) fn sample(&mut self, values: &[i64], labels: &[Label]) {
        self.builder.sample(&self.stack, values, labels);
    }

    /// Reads a line that is no sample, for the name that it may have.
    pub(crate) fn read_comment(&mut self, line: &Line<'_>) {
        if !line.is_cut {
            self.comments.read(line.text, &mut self.builder);
        }
    }

    /// Names locations by the comments, attaches the memory map, which ends the text of `lines` lines before it, warns
    /// about odd lines, and gives the profile.
    ///
    /// # Errors
    /// The error of the first broken line if there is no sample, and those of [`ProfileBuilder::finish`].
    pub(crate) fn finish(mut self, map: &[u8], lines: usize, warnings: &mut Vec<String>) -> Result<Profile> {
        self.comments.name(&mut self.builder)?;
        let mut odd = OddLines::default();
        maps::attach(&maps::parse_counting(map, &mut odd), &mut self.builder);
        self.odd.append(odd, lines);
        let is_empty = self.builder.parts_mut().stack_ends.is_empty();
        self.odd.end(self.format, is_empty, warnings)?;
        self.builder.finish()
    }
}

/// The address as a sampler would have captured it, callers as return addresses; `None` for a frame without one.
pub(super) fn raw_address(profile: &Profile, id: LocationId, is_caller: bool) -> Option<Addr> {
    let location = profile.location(id);
    let past = match profile.addresses() {
        Addresses::CallSite => u64::from(is_caller || location.is_return),
        Addresses::RawCpu | Addresses::RawReturn => 0,
    };
    (location.address != Addr(0)).then(|| Addr(location.address.0.wrapping_add(past)))
}
