//! Frees the memory that symbolizing took, in the background.
//!
//! The kernel takes 10 to 20 ms to unmap half a gigabyte of debug information that was read, and freeing the texts of
//! such a file also takes time. Nothing waits for the threads that do it: they hold memory and read-only maps and
//! nothing else (no open file, no lock, no pending write), so that nothing is lost if the process ends before them; the
//! kernel then does the same.

use std::thread;

use crate::Image;
use crate::elf::FileBytes;
use crate::sources::Answer;

/// The smallest files worth a thread, bytes mapped in all.
const MAPPED_BYTES_MIN: usize = 64 << 20;
/// The fewest answers worth a thread.
const ANSWERS_MIN: usize = 4096;

/// Unmaps images that are no longer needed.
pub(crate) fn release_images(images: Vec<Image>) {
    let maps: Vec<FileBytes> = images.into_iter().flat_map(maps).collect();
    let bytes: usize = maps.iter().map(|map| map.len()).sum();
    release(maps, bytes >= MAPPED_BYTES_MIN);
}

/// Frees answers that were written.
pub(crate) fn release_answers(answers: Vec<Option<Answer>>) {
    let is_many = answers.len() >= ANSWERS_MIN;
    release(answers, is_many);
}

fn release(held: impl Send + 'static, is_large: bool) {
    if is_large {
        // If no thread can be started, it is dropped here.
        let _ = thread::Builder::new().name("release".to_owned()).spawn(move || drop(held));
    }
}

/// The mapped files of an image, without the rest of it: the last clone of a folder of indexes waits for pending
/// writes.
fn maps(image: Image) -> impl Iterator<Item = FileBytes> {
    let debug = image.debug.map(|debug| debug.bytes);
    let others = [debug, image.shared.map(|shared| shared.bytes), image.package.map(|package| package.bytes)];
    [image.bytes].into_iter().chain(others.into_iter().flatten())
}

#[cfg(test)]
mod tests;
