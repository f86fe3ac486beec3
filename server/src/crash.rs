//! Reports panics and crashes to the log.
//!
//! A panic is reported with its thread, message and stack, and then proceeds as usual. A crash (SIGSEGV, SIGBUS,
//! SIGFPE, SIGILL, SIGABRT) is reported between two marker lines. Then the signal takes its default effect, so that
//! a core is written if the system is set up for it. The report has two parts. The first is async-signal-safe:
//! it formats into an array and calls `write`. The second allocates and takes locks to print the stack with
//! function names, which a signal handler must not do: it may hang if the crash was in the allocator. An alarm
//! therefore ends the process after a few seconds, with what was written by then.
#![allow(unsafe_code)]

use crate::log;
use std::backtrace::Backtrace;
use std::fmt::{self, Write};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The signals of a crash, with their names.
const SIGNALS: [(libc::c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGABRT, "SIGABRT"),
];

/// Seconds that the second part of a report may take.
const ALARM_S: libc::c_uint = 10;

/// An access so near to the stack's pointer, in bytes, has left the stack.
const GUARD_BYTES: usize = 1 << 16;

/// Process and user that sent the signal, 32 bits each. The signal is raised once more before the report.
static SENDER: AtomicU64 = AtomicU64::new(0);

/// From now on panics are logged, each with its thread, message and stack.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("(no text)");
        let name = thread.name().unwrap_or("(no name)");
        let stack = Backtrace::force_capture();
        log::warning(&format!(
            "Thread '{name}' panicked at {place}: {message}\n------ STACK TRACE ------\n{stack}\
             ------ END OF STACK TRACE ------"
        ));
    }));
}

/// `crash-log-enabled`: whether crashes are reported.
pub fn report_crashes(enabled: bool) {
    for (signal, _) in SIGNALS {
        if enabled {
            // On the alternate stack, which every thread of Rust's has: an overflowing stack has no room.
            handle(signal, first_look as *const () as usize, libc::SA_ONSTACK);
        } else {
            handle(signal, libc::SIG_DFL, 0);
        }
    }
}

/// A handler for `signal` with additional flags.
fn handle(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: all fields are numbers, or pointers that may be null.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_SIGINFO | flags;
    // SAFETY: the action is complete, and the old one is not asked for. It fails for no signal of ours.
    unsafe { libc::sigaction(signal, &raw const action, null_mut()) };
}

/// Reads from an unmapped address: for `DEBUG SEGFAULT`, which tests this module's report.
pub fn fault() {
    // SAFETY: none; that is what it is for. The kernel answers with SIGSEGV.
    unsafe { std::ptr::read_volatile(16 as *const u8) };
}

/// Runs on the alternate stack, which is small: continues in [`report`] on the thread's own stack, or reports that this
/// stack is exhausted.
extern "C" fn first_look(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands in both, valid while the handler runs.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let (_, stack) = registers(context);
    let of_memory = code > 0 && matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    if of_memory && stack != 0 && address.abs_diff(stack) < GUARD_BYTES {
        let mut text = Fixed::default();
        begin_report(&mut text, signal, code);
        let _ = writeln!(text, "The stack of the thread has overflowed at {address:#x}");
        end_report(&text);
        die_of(signal);
        return;
    }
    handle(signal, report as *const () as usize, 0);
    if code <= 0 || signal == libc::SIGABRT {
        // SAFETY: the fields are there for a signal that was sent.
        let (pid, uid) = unsafe { ((*info).si_pid(), (*info).si_uid()) };
        SENDER.store(u64::from(pid.cast_unsigned()) << 32 | u64::from(uid), Ordering::Relaxed);
        // Nothing will fault again: the signal was sent. It is blocked until this returns, and is delivered then.
        // SAFETY: no pointers.
        unsafe { libc::raise(signal) };
    }
}

/// Runs on the crashed thread's stack, so that the trace shows the path to the crash.
extern "C" fn report(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    static RUNS: AtomicBool = AtomicBool::new(false);
    if RUNS.swap(true, Ordering::AcqRel) {
        // Another thread, which waits until the report of the first one has ended the process. A crash in the
        // report itself ends it at once: its signal is blocked here.
        // SAFETY: no pointers.
        unsafe { libc::sleep(2 * ALARM_S) };
        die_of(signal);
        return;
    }
    let mut text = Fixed::default();
    // SAFETY: the kernel hands it in, valid while the handler runs.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    begin_report(&mut text, signal, code);
    let (instruction, _) = registers(context);
    if code > 0 {
        let _ = writeln!(text, "Accessing address: {address:#x}");
    } else {
        let sender = SENDER.load(Ordering::Relaxed);
        let (pid, uid) = (sender >> 32, sender as u32);
        let _ = writeln!(text, "Killed by PID: {pid}, UID: {uid}");
    }
    let _ = writeln!(text, "Crashed running the instruction at: {instruction:#x}");
    let _ = writeln!(text, "\n------ STACK TRACE ------");
    log::write_raw(text.bytes());
    // From here on with allocations and locks.
    // SAFETY: no pointers. The default action of the alarm ends the process.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(ALARM_S);
    }
    let thread = std::thread::current();
    let stack = Backtrace::force_capture();
    log::write_raw(format!("Thread: {}\n{stack}", thread.name().unwrap_or("?")).as_bytes());
    log::write_raw(process_state().as_bytes());
    end_report(&Fixed::default());
    die_of(signal);
}

/// The system's description of the process.
fn process_state() -> String {
    let mut text = String::from("\n------ PROCESS ------\n");
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let shown = ["State", "VmPeak", "VmSize", "VmRSS", "RssAnon", "Threads", "FDSize"];
        let is_shown = |line: &&str| shown.iter().any(|name| line.starts_with(name));
        status.lines().filter(is_shown).for_each(|line| text.extend([line, "\n"]));
    }
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    text.push_str(&format!("Names of threads: {}\n", names.join(" ")));
    text
}

fn begin_report(text: &mut Fixed, signal: libc::c_int, code: libc::c_int) {
    let name = SIGNALS.iter().find(|(number, _)| *number == signal).map_or("?", |(_, name)| name);
    let _ = writeln!(
        text,
        "\n\n=== SEXTON BUG REPORT START: Cut & paste starting from here ===\n\
         {}: Sexton {} crashed by signal: {signal} ({name}), si_code: {code}",
        std::process::id(),
        env!("CARGO_PKG_VERSION"),
    );
}

fn end_report(text: &Fixed) {
    log::write_raw(text.bytes());
    log::write_raw(
        b"\n=== SEXTON BUG REPORT END. Please report it with everything from START on, with what was running, and \
        with the version of the system ===\n",
    );
}

/// Lets the signal take its default effect when the handler returns: a core dump if enabled, and the status for a supervisor.
fn die_of(signal: libc::c_int) {
    handle(signal, libc::SIG_DFL, 0);
    // SAFETY: no pointers.
    unsafe { libc::raise(signal) };
}

/// The instruction and stack pointers of the thread; zeros if unknown.
fn registers(context: *mut libc::c_void) -> (usize, usize) {
    let context: *const libc::ucontext_t = context.cast();
    if context.is_null() {
        return (0, 0);
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel hands it in, valid while the handler runs.
    let found = unsafe {
        let registers = &(*context).uc_mcontext.gregs;
        (registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RSP as usize] as usize)
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    let found = unsafe {
        let registers = &(*context).uc_mcontext;
        (registers.pc as usize, registers.sp as usize)
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let found = (0, 0);
    found
}

/// Text in an array: what does not fit is left out.
struct Fixed {
    bytes: [u8; 1024],
    len: usize,
}

impl Default for Fixed {
    fn default() -> Self {
        Self { bytes: [0; 1024], len: 0 }
    }
}

impl Fixed {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Write for Fixed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let fits = text.len().min(room.len());
        room[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_cut() {
        let mut text = Fixed::default();
        for _ in 0..100 {
            write!(text, "crashed by {} ", libc::SIGSEGV).unwrap();
        }
        assert_eq!(text.bytes().len(), 1024);
        assert!(text.bytes().starts_with(b"crashed by 11 crashed by 11 "));
    }
}
