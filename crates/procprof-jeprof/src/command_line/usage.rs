//! The text of `--help`.

/// The usage, as `--help` prints it.
pub const USAGE: &str = "\
Usage:
  jeprof [options] PROGRAM PROFILE...       profiles are summed
  jeprof [options] SYMBOLIZED-PROFILE...    profiles with names, as written by --raw
  jeprof [options] [PROGRAM] ADDRESS...     profiles of running processes; without PROGRAM, with names from them
  jeprof --symbols PROGRAM                  names for a memory map and addresses on standard input

An ADDRESS is [http[s]://]host:port[/prefix][/pprof/heap|growth|contention|profile]; name@N means 0.name to N-1.name.
Fetched profiles are kept in JEPROF_TMPDIR, by default ~/jeprof.

Options may be anywhere, with one dash or two, as --option=X or --option X, and abbreviated.

Output:
  --interactive        Interactive session [default on a terminal]
  --text               One line per function [default elsewhere]
  --dot                Call graph in Graphviz's language
  --svg                Call graph as an interactive picture for browsers
  --pdf                Call graph as a picture on a page of 8 by 11 inches
  --collapsed          One line per stack, for flame graphs
  --callgrind          Calls in callgrind's format
  --list=REGEXP        Source lines of the functions that match, as procprof report prints them
  --disasm=REGEXP      Their machine code, likewise
  --symbols            Names of addresses
  --raw                A fetched profile with its names, readable without the program

Granularity:
  --functions          By function [default]
  --lines              By source line
  --files              By source file
  --addresses          By address

Order and difference:
  --cum                By cumulative values
  --base=FILE          Subtract the profile FILE
  --drop_negative      Differences below 0 count as 0

Heap profiles:
  --inuse_space        Megabytes in use [default]
  --inuse_objects      Objects in use
  --alloc_space        Megabytes allocated since the start
  --alloc_objects      Objects allocated since the start
  --show_bytes         Bytes instead of megabytes
  --thread=N|*         One thread, or each separately

Contention profiles:
  --total_delay        Seconds waited [default]
  --contentions        Number of waits
  --mean_delay         Seconds per wait

Stacks and call graph:
  --focus=REGEXP       Stacks with a function, place or address that matches
  --ignore=REGEXP      Stacks without such a match
  --retain=REGEXP      Functions that match
  --exclude=REGEXP     Functions that do not match
  --nodecount=N        Most nodes [80]
  --nodefraction=F     Nodes above this share of the total [.005]
  --edgefraction=F     Edges above this share of the total [.001]
  --maxdegree=N        Most edges into or out of a node [8]
  --heapcheck          Highlight nodes that allocate by themselves

Processes and files:
  --seconds=N          Length of a CPU profile [30]
  --add_lib=FILE       A library that is not in the memory map
  --lib_prefix=DIR,... Folders below which libraries are searched
  --debug-syms-by-id   Also use debug files below /usr/lib/debug/.build-id
  --tools=TOOLS        Accepted and ignored: no other tool is run
  --help, --version    Print this text, or the version
";
