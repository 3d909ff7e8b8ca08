//! Prints what `addr2line -a -f -C -i -e FILE` prints for the addresses on standard input.

use std::io::{BufWriter, Write};
use std::path::Path;

use procprof_profile::SymbolAddr;
use procprof_symbolize::{Image, ImageOptions, binutils};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: addr2line FILE <ADDRESSES")?;
    let image = Image::open(Path::new(&path), &ImageOptions::default())?;
    let text = std::io::read_to_string(std::io::stdin())?;
    let addresses = text.lines().map(|line| u64::from_str_radix(line.trim_start_matches("0x"), 16).map(SymbolAddr));
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    let mut out = BufWriter::new(std::io::stdout());
    for (address, frames) in addresses.iter().zip(binutils::addr2line(&image, &addresses)) {
        writeln!(out, "0x{:016x}", address.0)?;
        for frame in frames {
            writeln!(out, "{}\n{}", frame.name, frame.place)?;
        }
    }
    Ok(())
}
