//! Programs for the kernel (bpf(2)), written by hand: instructions, loading, and a table shared by
//! program and process.
//!
//! A library would load a compiler's output; the programs here have sixty instructions. So there is
//! an assembler with labels ([`Assembly`]), and nothing to install. Before the kernel runs a
//! program, it proves that the program ends and stays inside its memory. If it refuses a program,
//! its messages ([`Program::classifier`]) name the fault.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::MapFlags;

use crate::call::check_long;
use crate::map::{ACCESS, Mapping};

/// A register. Register 10 points to the frame, which ends where the stack begins.
pub type Register = u8;

/// The width of a load or store, as the instruction has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Four bytes.
    Word = 0x00,
    /// Two bytes.
    Half = 0x08,
    /// One byte.
    Byte = 0x10,
    /// Eight bytes.
    Double = 0x18,
}

/// Arithmetic on all 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Math {
    /// Addition.
    Add = 0x00,
    /// Multiplication.
    Mul = 0x20,
    /// Bitwise and.
    And = 0x50,
    /// Logical shift to the right.
    Shr = 0x70,
    /// Assignment.
    Mov = 0xb0,
}

/// The condition of a jump; all comparisons are unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Equal.
    Equal = 0x10,
    /// Greater.
    Above = 0x20,
    /// Greater or equal.
    AtLeast = 0x30,
    /// Not equal.
    Differs = 0x50,
}

/// Helper functions of the kernel (bpf-helpers(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// `bpf_map_lookup_elem`
    Lookup = 1,
    /// `bpf_skb_store_bytes`
    StoreBytes = 9,
    /// `bpf_l4_csum_replace`
    ReplaceChecksum = 11,
    /// `bpf_redirect_map`
    RedirectMap = 51,
}

/// A place in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program under construction.
#[derive(Default)]
pub struct Assembly {
    code: Vec<[u8; 8]>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembly {
    fn put(&mut self, code: u8, to: Register, from: Register, offset: i16, value: i32) {
        let mut bytes = [code, to | from << 4, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..].copy_from_slice(&value.to_ne_bytes());
        self.code.push(bytes);
    }

    /// A label whose position is not known yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts the label at this place.
    pub fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// `to = to op value`
    pub fn math(&mut self, op: Math, to: Register, value: i32) {
        self.put(0x07 | op as u8, to, 0, 0, value);
    }

    /// `to = to op from`
    pub fn math_by(&mut self, op: Math, to: Register, from: Register) {
        self.put(0x0f | op as u8, to, from, 0, 0);
    }

    /// Converts the lowest `bits` of a register to network order.
    pub fn in_network_order(&mut self, to: Register, bits: i32) {
        self.put(0xdc, to, 0, 0, bits);
    }

    /// `to = *(from + offset)`
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.put(0x61 | width as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.put(0x63 | width as u8, to, from, offset, 0);
    }

    /// Goes to `label`.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(0x05, 0, 0, 0, 0);
    }

    /// Jumps to `label` if the condition holds for `left` and `right`.
    pub fn jump_if(&mut self, when: When, left: Register, right: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(0x05 | when as u8, left, 0, 0, right);
    }

    /// Jumps to `label` if the condition holds for `left` and the register `right`.
    pub fn jump_if_by(&mut self, when: When, left: Register, right: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(0x0d | when as u8, left, right, 0, 0);
    }

    /// `to =` the address of the table.
    pub fn table(&mut self, to: Register, table: impl AsFd) {
        // BPF_PSEUDO_MAP_FD in place of a source register.
        self.put(0x18, to, 1, 0, table.as_fd().as_raw_fd());
        self.put(0, 0, 0, 0, 0);
    }

    /// Calls a helper with registers 1 to 5; the result is in 0.
    pub fn call(&mut self, helper: Helper) {
        self.put(0x85, 0, 0, 0, helper as i32);
    }

    /// Returns register 0.
    pub fn exit(&mut self) {
        self.put(0x95, 0, 0, 0, 0);
    }

    /// The instructions.
    ///
    /// # Panics
    /// If a label is missing or too far away: the program is our own.
    fn finish(mut self) -> Vec<[u8; 8]> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is somewhere");
            let offset = i16::try_from(target as i64 - at as i64 - 1).expect("a short program");
            self.code[at][2..4].copy_from_slice(&offset.to_ne_bytes());
        }
        self.code
    }
}

/// A program in the kernel; it lives until this value is dropped and nothing else holds it.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

/// The size of the buffer for the kernel's log about a program.
const SAYS: usize = 1 << 20;

impl Program {
    /// Has the kernel check and load a traffic classifier (`BPF_PROG_TYPE_SCHED_CLS`).
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`; `ENOSYS`; with the last lines of the
    /// kernel's reasons where it refuses the program itself.
    pub fn classifier(assembly: Assembly) -> io::Result<Program> {
        Program::load(3, assembly)
    }

    /// Has the kernel check and load a program for received frames (`BPF_PROG_TYPE_XDP`).
    ///
    /// # Errors
    /// As [`Program::classifier`].
    pub fn frames(assembly: Assembly) -> io::Result<Program> {
        Program::load(6, assembly)
    }

    fn load(kind: u64, assembly: Assembly) -> io::Result<Program> {
        let code = assembly.finish();
        let mut attributes = [0_u64; 9];
        attributes[0] = kind | (code.len() as u64) << 32;
        attributes[1] = code.as_ptr() as u64;
        attributes[2] = c"GPL".as_ptr() as u64;
        if let Ok(fd) = made(5, &mut attributes) {
            return Ok(Program { fd });
        }
        // The log is requested only now: a buffer too small for it would be an error.
        let mut says = vec![0_u8; SAYS];
        attributes[3] = 1 | (SAYS as u64) << 32;
        attributes[4] = says.as_mut_ptr() as u64;
        match made(5, &mut attributes) {
            Ok(fd) => Ok(Program { fd }),
            Err(error) => {
                let text = CStr::from_bytes_until_nul(&says).unwrap_or(c"").to_string_lossy();
                let lines: Vec<&str> = text.trim().lines().collect();
                let last = lines[lines.len().saturating_sub(3)..].join("; ");
                match last.is_empty() {
                    true => Err(error),
                    false => Err(io::Error::new(error.kind(), format!("{error}: {last}"))),
                }
            }
        }
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A table of rows of 32-bit words, read and written by a program and this process.
#[derive(Debug)]
pub struct Table {
    fd: OwnedFd,
    memory: Mapping,
    row: usize,
    rows: usize,
}

impl Table {
    /// `rows` rows of `words` words each, all zero; `words` is even, because the kernel's rows are
    /// multiples of eight bytes.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF`; no memory.
    ///
    /// # Panics
    /// If `words` is odd or zero.
    pub fn new(words: usize, rows: usize) -> io::Result<Table> {
        assert!(words > 0 && words.is_multiple_of(2), "a row of {words} words");
        let mut attributes = [0_u64; 9];
        // BPF_MAP_TYPE_ARRAY with a key of 4 bytes, the value's size and the rows; BPF_F_MMAPABLE.
        attributes[0] = 2 | 4 << 32;
        attributes[1] = (words as u64 * 4) | ((rows as u64) << 32);
        attributes[2] = 1 << 10;
        let fd = made(0, &mut attributes)?;
        let memory = Mapping::of(&fd, words * 4 * rows, ACCESS, MapFlags::empty(), 0)?;
        Ok(Table { fd, memory, row: words, rows })
    }

    /// Row `row`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn row(&self, row: usize) -> &[AtomicU32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: the mapping has `rows` rows of `row` words and lasts as long as we do; words are
        // atomic, so that the program may write meanwhile.
        unsafe {
            let start = self.memory.as_ptr().cast::<AtomicU32>().add(row * self.row);
            std::slice::from_raw_parts(start, self.row)
        }
    }

    /// Writes a row's first words.
    ///
    /// # Panics
    /// If there is no such row or it has fewer words.
    pub fn write(&self, row: usize, words: &[u32]) {
        let row = &self.row(row)[..words.len()];
        row.iter().zip(words).for_each(|(to, word)| to.store(*word, Ordering::Release));
    }
}

impl AsFd for Table {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A table of AF_XDP sockets by receive queue (`BPF_MAP_TYPE_XSKMAP`).
#[derive(Debug)]
pub struct QueueTable {
    fd: OwnedFd,
}

impl QueueTable {
    /// A table for the queues below `queues`, all without a socket.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`; `EINVAL` where the kernel has no AF_XDP.
    pub fn new(queues: u32) -> io::Result<QueueTable> {
        let mut attributes = [0_u64; 9];
        attributes[0] = 17 | 4 << 32;
        attributes[1] = 4 | u64::from(queues) << 32;
        Ok(QueueTable { fd: made(0, &mut attributes)? })
    }

    /// Gives the frames of a queue to a bound socket.
    ///
    /// # Errors
    /// `EBADF` for another kind of descriptor, `E2BIG` for a queue that is not in the table.
    pub fn put(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (key, value) = (queue, socket.as_raw_fd());
        let mut attributes = [0_u64; 4];
        attributes[0] = self.fd.as_raw_fd() as u64;
        attributes[1] = (&raw const key) as u64;
        attributes[2] = (&raw const value) as u64;
        command(2, &mut attributes).map(drop)
    }
}

impl AsFd for QueueTable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A program for frames on a device: it is detached when this value is dropped, and when the
/// process ends in any way.
#[derive(Debug)]
pub struct FrameLink {
    _fd: OwnedFd,
}

impl FrameLink {
    /// Puts the program on a device: in the driver, or before the kernel's stack (`generic`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the driver has no hook; `EBUSY` where the device has a program already;
    /// `EPERM`.
    pub fn new(program: &Program, device: u32, generic: bool) -> io::Result<FrameLink> {
        // BPF_LINK_CREATE with BPF_XDP; XDP_FLAGS_SKB_MODE or XDP_FLAGS_DRV_MODE.
        let flags: u64 = if generic { 1 << 1 } else { 1 << 2 };
        let mut attributes = [0_u64; 4];
        attributes[0] = program.fd.as_raw_fd() as u64 | u64::from(device) << 32;
        attributes[1] = 37 | flags << 32;
        Ok(FrameLink { _fd: made(28, &mut attributes)? })
    }
}

/// A command that makes a descriptor.
fn made(number: libc::c_int, attributes: &mut [u64]) -> io::Result<OwnedFd> {
    let fd = command(number, attributes)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `bpf(2)`
fn command(command: libc::c_int, attributes: &mut [u64]) -> io::Result<libc::c_int> {
    let size = size_of_val(attributes);
    // SAFETY: the attributes are readable for their size; the memory that they point to lives in
    // the caller and has the lengths that they name.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size as libc::c_uint)
    };
    check_long(answer).map(|answer| answer as libc::c_int)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loaded program, or the reason why the test is skipped.
    fn allowed<T>(result: io::Result<T>) -> Option<T> {
        match result {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                eprintln!(
                    "skipped: queues and programs of the kernel's need CAP_NET_ADMIN, CAP_BPF"
                );
                None
            }
            other => Some(other.expect("it loads")),
        }
    }

    #[test]
    fn jumps_lead_where_their_labels_are() {
        let mut assembly = Assembly::default();
        let (back, end) = (assembly.label(), assembly.label());
        assembly.here(back);
        assembly.math(Math::Mov, 0, 7);
        assembly.jump_if(When::Equal, 0, 7, end);
        assembly.jump(back);
        assembly.here(end);
        assembly.exit();
        let code = assembly.finish();
        assert_eq!(code[0], [0xb7, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(code[1], [0x15, 0, 1, 0, 7, 0, 0, 0]);
        assert_eq!(code[2], [0x05, 0, 0xfd, 0xff, 0, 0, 0, 0]);
        assert_eq!(code[3], [0x95, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_refused_program_says_why() {
        let mut assembly = Assembly::default();
        // The program reads a register that was never written.
        assembly.math_by(Math::Mov, 0, 5);
        assembly.exit();
        match Program::classifier(assembly) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                eprintln!(
                    "skipped: queues and programs of the kernel's need CAP_NET_ADMIN, CAP_BPF"
                );
            }
            Err(error) => assert!(error.to_string().contains("R5"), "{error}"),
            Ok(_) => panic!("it loaded"),
        }
    }

    #[test]
    fn a_table_keeps_what_is_written() {
        let Some(table) = allowed(Table::new(4, 3)) else { return };
        table.write(2, &[1, 2, 3]);
        let words: Vec<u32> = table.row(2).iter().map(|it| it.load(Ordering::Relaxed)).collect();
        assert_eq!(words, [1, 2, 3, 0]);
        let mut assembly = Assembly::default();
        assembly.table(1, &table);
        assembly.math(Math::Mov, 0, 0);
        assembly.exit();
        assert!(allowed(Program::classifier(assembly)).is_some());
    }
}
