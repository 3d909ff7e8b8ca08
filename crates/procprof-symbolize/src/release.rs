//! Giving back what naming a profile took, beside what follows.
//!
//! The kernel takes 10 to 20 ms to unmap half a gigabyte of debug information that was read, and the texts that
//! such a file gives are not freed at once either. Nobody waits for the threads that do it: they hold
//! memory and read-only maps and nothing else (no open file, no lock, nothing that is still to be written),
//! so that nothing is lost where the process ends before them; the kernel then does the same.

use std::thread;

use crate::Image;
use crate::file_bytes::FileBytes;
use crate::sources::Answer;

/// The smallest files worth a thread, bytes mapped in all.
const MAPPED_BYTES_MIN: usize = 64 << 20;
/// The fewest answers worth a thread.
const ANSWERS_MIN: usize = 4096;

/// Unmaps images that are done with.
pub(crate) fn release_images(images: Vec<Image>) {
    let maps: Vec<FileBytes> = images.into_iter().flat_map(maps).collect();
    let bytes: usize = maps.iter().map(|map| map.len()).sum();
    release(maps, bytes >= MAPPED_BYTES_MIN);
}

/// Frees answers that were written down.
pub(crate) fn release_answers(answers: Vec<Option<Answer>>) {
    let is_many = answers.len() >= ANSWERS_MIN;
    release(answers, is_many);
}

fn release(held: impl Send + 'static, is_large: bool) {
    if is_large {
        // Where no thread can be had, it is dropped here and now.
        let _ = thread::Builder::new().name("release".to_owned()).spawn(move || drop(held));
    }
}

/// What an image has mapped, without the rest of it: the last clone of a folder of indexes waits for their writing.
fn maps(image: Image) -> impl Iterator<Item = FileBytes> {
    let debug = image.debug.map(|debug| debug.bytes);
    let others = [debug, image.shared.map(|shared| shared.bytes), image.package.map(|package| package.bytes)];
    [image.bytes].into_iter().chain(others.into_iter().flatten())
}

#[cfg(test)]
mod tests;
