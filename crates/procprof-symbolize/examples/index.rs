//! Makes the symbol index of a file, and compares its answers with those of the file: sizes, times, differences.

use std::path::Path;
use std::time::Instant;

use object::{Object, ObjectSection};
use procprof_profile::SymbolAddr;
use procprof_symbolize::{Image, ImageOptions, SymbolIndex};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: index FILE [STEP]")?;
    let step: usize = std::env::args().nth(2).map_or(Ok(101), |step| step.parse())?;
    let image = Image::open(Path::new(&path), &ImageOptions::default())?;
    let start = Instant::now();
    let bytes = SymbolIndex::build(&image)?;
    println!("built in {:?}: {} bytes", start.elapsed(), bytes.len());
    let index = SymbolIndex::from_bytes(bytes)?;
    let start = Instant::now();
    index.verify()?;
    println!("verified in {:?}", start.elapsed());

    let file = std::fs::read(&path)?;
    let object = object::File::parse(&*file)?;
    let code = object.sections().filter(|section| section.kind() == object::SectionKind::Text);
    let all = code.flat_map(|section| section.address()..section.address() + section.size()).step_by(step);
    let addresses: Vec<SymbolAddr> = all.map(SymbolAddr).collect();
    let start = Instant::now();
    let from_file = image.resolve(&addresses);
    println!("{} addresses from the file in {:?}", addresses.len(), start.elapsed());
    let start = Instant::now();
    let from_index = index.resolve(&addresses);
    println!("from the index in {:?}", start.elapsed());
    let mut differences = 0;
    for ((address, from_file), from_index) in addresses.iter().zip(&from_file).zip(&from_index) {
        if from_file != from_index {
            differences += 1;
            if differences <= 5 {
                println!("{address:?}:\n  file {from_file:?}\n  index {from_index:?}");
            }
        }
    }
    println!("{differences} differences");
    Ok(())
}
