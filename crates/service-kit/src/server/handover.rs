//! Leaves a port that other processes also listen on, without losing a connection.
//!
//! With `SO_REUSEPORT` the kernel distributes new connections over the queues of all listeners on a
//! port. Closing a listener resets the connections in its queue. So a process that leaves must
//! first make sure that its queue gets no new connections, and then empty it.
//!
//! A small program can choose the listener for each connection in the kernel
//! (`SO_ATTACH_REUSEPORT_CBPF`, since Linux 4.5, without privileges). The program returns an index
//! in the list of listeners. For an index beyond the end, the kernel chooses as it does without a
//! program. A listener does not know its own index, which also changes when others leave, so it is
//! found by trial. This process connects to itself while its own listener refuses to answer. If the
//! connection succeeds, it has reached another listener.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::fd::AsRawFd,
    time::Duration,
};

use tokio::{
    net::TcpSocket,
    time::{Instant, sleep, timeout},
};

use crate::connections::Newcomers;

/// How long a trial waits for the kernel. If another listener has the index, it answers
/// immediately.
const TRIAL: Duration = Duration::from_millis(250);
/// Time after which every earlier handshake is complete: one round trip, and one lost answer sent
/// again.
const HANDSHAKES: Duration = Duration::from_millis(1200);
/// Longest wait for the first requests of the newest connections. A silent client is not waited for
/// any longer.
const LONGEST: Duration = Duration::from_secs(5);
/// Time between two checks of the queue.
const LOOK: Duration = Duration::from_millis(10);
/// Number of consecutive checks that must find nothing. After a connection leaves the queue and
/// before it counts as a newcomer, it is briefly in neither.
const LOOKS: u32 = 3;

/// Directs new connections to other listeners on the same port. Returns once the connections that
/// were already on their way have been accepted and have sent a request, after `most` at the
/// latest. Returns at once, without effect, if no other listener exists or the system does not
/// support this. In that case, queued connections are reset when the listener closes. Close the
/// listener without delay afterwards.
pub(super) async fn hand_over(listener: &TcpListener, newcomers: &Newcomers, most: Duration) {
    let guard = match steer(listener).await {
        Ok(Some(guard)) => guard,
        Ok(None) => {
            tracing::debug!("there is no other listener on the port");
            return;
        }
        Err(error) => {
            tracing::debug!(%error, "cannot direct new connections to other listeners: those in the queue are reset when the port is closed");
            return;
        }
    };
    let (begun, mut quiet) = (Instant::now(), 0);
    while quiet < LOOKS && begun.elapsed() < most.min(LONGEST) {
        sleep(LOOK).await;
        let idle = begun.elapsed() >= HANDSHAKES && newcomers.count() == 0 && !is_queued(listener);
        quiet = if idle { quiet + 1 } else { 0 };
    }
    tracing::debug!(
        newcomers = newcomers.count(),
        "new connections go to other listeners on the port"
    );
    drop(guard);
}

/// While this value lives, new connections go to the listener at one index of the list.
#[derive(Debug)]
struct SteeringGuard<'a>(&'a TcpListener);

impl<'a> SteeringGuard<'a> {
    fn to(place: u32, listener: &'a TcpListener) -> io::Result<Self> {
        attach(listener, libc::SO_ATTACH_REUSEPORT_CBPF, &mut [answer(place)])?;
        Ok(Self(listener))
    }
}

impl Drop for SteeringGuard<'_> {
    fn drop(&mut self) {
        // The program belongs to all listeners. If it stayed, it would direct every connection to
        // one of them. From here until the listener closes, the filter keeps new connections out. A
        // client whose first packet is dropped sends it again, and another listener gets it.
        if let Err(error) = set(self.0, libc::SO_DETACH_REUSEPORT_BPF, &0) {
            tracing::debug!(%error, "cannot detach the port's program");
        }
    }
}

/// Directs new connections to another listener, if there is one.
async fn steer(listener: &TcpListener) -> io::Result<Option<SteeringGuard<'_>>> {
    // In a list of two or more, at least one of the first two is another listener. Usually it is
    // the second, which was opened after ours.
    for place in [1, 0] {
        let guard = SteeringGuard::to(place, listener)?;
        if is_anothers(listener).await? {
            attach(listener, libc::SO_ATTACH_FILTER, &mut without_new())?;
            return Ok(Some(guard));
        }
    }
    set(listener, libc::SO_DETACH_FILTER, &0)?;
    Ok(None)
}

/// Whether new connections now reach another listener.
async fn is_anothers(listener: &TcpListener) -> io::Result<bool> {
    let to = reachable(listener.local_addr()?);
    let (socket, from) = match to {
        SocketAddr::V4(_) => (TcpSocket::new_v4()?, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
        SocketAddr::V6(_) => (TcpSocket::new_v6()?, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))),
    };
    socket.bind(from)?;
    attach(
        listener,
        libc::SO_ATTACH_FILTER,
        &mut without_port(socket.local_addr()?.port()),
    )?;
    match timeout(TRIAL, socket.connect(to)).await {
        Ok(connected) => connected.map(|_| true),
        Err(_) => Ok(false),
    }
}

/// An address that can be connected to, in place of the unspecified address.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

type Instruction = libc::sock_filter;

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Offsets in the TCP header, where filters of a TCP socket start to read: the sender's port, and
/// the flags.
const PORT: u32 = 0;
const FLAGS: u32 = 13;
const SYN: u32 = 0x02;
const ACK: u32 = 0x10;

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction {
        // All opcodes are below 256.
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// A return instruction. A program that chooses a listener returns an index; a filter returns the
/// number of bytes of the packet to admit.
fn answer(k: u32) -> Instruction {
    instruction(RETURN, 0, 0, k)
}

/// A filter that drops packets from one port.
fn without_port(port: u16) -> [Instruction; 4] {
    [
        instruction(LOAD_HALF, 0, 0, PORT),
        instruction(IF_EQUAL, 0, 1, port.into()),
        answer(0),
        answer(u32::MAX),
    ]
}

/// A filter that drops the first packet of each connection. Open connections continue: their
/// packets are acknowledgements.
fn without_new() -> [Instruction; 5] {
    [
        instruction(LOAD_BYTE, 0, 0, FLAGS),
        instruction(AND, 0, 0, SYN | ACK),
        instruction(IF_EQUAL, 0, 1, SYN),
        answer(0),
        answer(u32::MAX),
    ]
}

fn attach(listener: &TcpListener, option: libc::c_int, program: &mut [Instruction]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    // The pointer lives as long as `program`, which outlives the call; the kernel copies what it
    // points to.
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_mut_ptr(),
    };
    set(listener, option, &program)
}

/// Sets an option of the socket. `T` is the type that the kernel expects.
fn set<T>(listener: &TcpListener, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open while `listener` is borrowed; `value` is valid for reads of
    // `length` bytes, and a program in it points to as many instructions as it declares, which live
    // until the call returns (`attach`).
    let outcome = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            length,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether a connection is waiting to be accepted.
fn is_queued(listener: &TcpListener) -> bool {
    let mut asked = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `asked` is one valid entry, and the call does not wait.
    let found = unsafe { libc::poll(&raw mut asked, 1, 0) };
    found > 0 && asked.revents & libc::POLLIN != 0
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, net::TcpStream};

    use super::*;

    fn listener(port: u16) -> TcpListener {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        socket.listen(1024).unwrap().into_std().unwrap()
    }

    fn port(listener: &TcpListener) -> u16 {
        listener.local_addr().unwrap().port()
    }

    /// Client connections, identified by their source ports.
    struct Clients(Vec<TcpStream>);

    impl Clients {
        fn of(listener: &TcpListener) -> Self {
            let to = listener.local_addr().unwrap();
            Self((0..64).map(|_| TcpStream::connect(to).unwrap()).collect())
        }

        /// The number of these connections in the listener's queue, which is then empty.
        fn in_queue(&self, listener: &TcpListener) -> usize {
            listener.set_nonblocking(true).unwrap();
            let own: HashSet<u16> = self.0.iter().map(|one| one.local_addr().unwrap().port()).collect();
            std::iter::from_fn(|| listener.accept().ok())
                .filter(|(_, from)| own.contains(&from.port()))
                .count()
        }
    }

    #[tokio::test]
    async fn who_leaves_keeps_what_is_queued_and_gets_nothing_new() {
        for older in [true, false] {
            let first = listener(0);
            let second = listener(port(&first));
            let (leaving, staying) = if older { (&first, &second) } else { (&second, &first) };
            let before = Clients::of(leaving);
            let guard = steer(leaving).await.unwrap().expect("somebody else listens");
            let after = Clients::of(leaving);
            assert_eq!(after.in_queue(staying), 64, "the older one leaves: {older}");
            let kept = before.in_queue(leaving);
            // The kernel distributes them by a hash of both ends: it is practically impossible that
            // one of two listeners gets none of the 64.
            assert!((1..64).contains(&kept), "{kept}");
            assert!(!is_queued(leaving));
            drop(guard);
        }
    }

    #[tokio::test]
    async fn who_is_alone_learns_so_and_stays_reachable() {
        let only = listener(0);
        assert!(steer(&only).await.unwrap().is_none());
        assert_eq!(Clients::of(&only).in_queue(&only), 64);
        assert!(!is_queued(&only));
    }

    #[tokio::test]
    async fn what_a_process_that_was_killed_leaves_behind_keeps_nobody_out() {
        let first = listener(0);
        let second = listener(port(&first));
        // If a process ends before it detaches its program, the program returns an index that no
        // longer exists.
        std::mem::forget(steer(&first).await.unwrap());
        drop(first);
        assert_eq!(Clients::of(&second).in_queue(&second), 64);
        let third = listener(port(&second));
        let clients = Clients::of(&second);
        assert_eq!(clients.in_queue(&second) + clients.in_queue(&third), 64);
        let guard = steer(&second).await.unwrap().expect("somebody else listens");
        assert_eq!(Clients::of(&third).in_queue(&third), 64);
        drop(guard);
        drop(second);
        assert_eq!(Clients::of(&third).in_queue(&third), 64);
    }
}
