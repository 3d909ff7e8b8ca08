//! Names the addresses on standard input, one hexadecimal number a line, by one library:
//! `resolve procprof|blazesym|wholesym BINARY`.
//!
//! Prints two lines for each frame, the innermost first, as `addr2line -f -i` does.

use std::io::{BufWriter, StdoutLock, Write};
use std::path::Path;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, binary] = arguments.as_slice() else { bail!("usage: resolve procprof|blazesym|wholesym BINARY <ADDRESSES") };
    let text = std::io::read_to_string(std::io::stdin())?;
    let addresses = text.lines().map(|line| u64::from_str_radix(line.trim_start_matches("0x"), 16)).collect::<Result<Vec<_>, _>>()?;
    let mut frames = Frames(BufWriter::new(std::io::stdout().lock()));
    match library.as_str() {
        "procprof" => procprof(binary.as_ref(), &addresses, &mut frames)?,
        "blazesym" => blazesym(binary.as_ref(), &addresses, &mut frames)?,
        "wholesym" => {
            tokio::runtime::Builder::new_current_thread().build()?.block_on(wholesym(binary.as_ref(), &addresses, &mut frames))?
        }
        _ => bail!("no library {library:?}"),
    }
    Ok(frames.0.flush()?)
}

/// The output.
struct Frames(BufWriter<StdoutLock<'static>>);

impl Frames {
    fn print(&mut self, name: &str, file: Option<&str>, line: Option<u32>) -> Result<()> {
        Ok(writeln!(self.0, "{name}\n{}:{}", file.unwrap_or("??"), line.unwrap_or(0))?)
    }
}

fn procprof(binary: &Path, addresses: &[u64], out: &mut Frames) -> Result<()> {
    use procprof_symbolize::{Image, ImageOptions, Resolved};
    let addresses: Vec<_> = addresses.iter().copied().map(procprof_profile::SymbolAddr).collect();
    for resolved in Image::open(binary, &ImageOptions::default())?.resolve(&addresses) {
        match resolved {
            Resolved::Frames(frames) => {
                for frame in frames.iter() {
                    out.print(&frame.name, frame.file.as_deref(), frame.line)?;
                }
            }
            Resolved::Unknown(_) => out.print("??", None, None)?,
        }
    }
    Ok(())
}

fn blazesym(binary: &Path, addresses: &[u64], out: &mut Frames) -> Result<()> {
    use blazesym::symbolize::source::{Elf, Source};
    use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
    let symbolizer = Symbolizer::new();
    let symbolized = symbolizer.symbolize(&Source::Elf(Elf::new(binary)), Input::VirtOffset(addresses))?;
    let mut frame = |name: &str, code: Option<&CodeInfo<'_>>| {
        let path = code.map(|code| code.to_path());
        out.print(name, path.as_ref().and_then(|path| path.to_str()), code.and_then(|code| code.line))
    };
    for symbolized in symbolized {
        match symbolized {
            Symbolized::Sym(symbol) => {
                for inlined in symbol.inlined.iter().rev() {
                    frame(&inlined.name, inlined.code_info.as_ref())?;
                }
                frame(&symbol.name, symbol.code_info.as_deref())?;
            }
            Symbolized::Unknown(_) => frame("??", None)?,
        }
    }
    Ok(())
}

async fn wholesym(binary: &Path, addresses: &[u64], out: &mut Frames) -> Result<()> {
    use wholesym::{LookupAddress, SymbolManager, SymbolManagerConfig};
    let manager = SymbolManager::with_config(SymbolManagerConfig::default());
    let symbols = manager.load_symbol_map_for_binary_at_path(binary, None).await?;
    for address in addresses {
        let found = symbols.lookup(LookupAddress::Svma(*address)).await;
        let Some(found) = found else {
            out.print("??", None, None)?;
            continue;
        };
        let Some(frames) = found.frames else {
            out.print(&found.symbol.name, None, None)?;
            continue;
        };
        for frame in frames {
            let file = frame.file_path.map(|path| path.display_path());
            out.print(frame.function.as_deref().unwrap_or(&found.symbol.name), file.as_deref(), frame.line_number)?;
        }
    }
    Ok(())
}
