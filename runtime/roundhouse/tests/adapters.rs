//! Services from plain functions, in the simulator and inside this program.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

use ::sim::Talk;
use engines::{Fault, PRESETS};
use roundhouse::prelude::*;
use roundhouse::sim;
use seam::Conn;
use testkit::{skip, talk};

const SEEDS: u64 = 40;

fn echo(message: &[u8], reply: &mut ReplyBuffer<'_>) {
    reply.put(message);
}

#[test]
fn lines_keep_the_laws() {
    let service = lines(|line, reply| match line {
        b"bye" => After::Close,
        b"hush" => After::Silence,
        _ => {
            reply.put(line).put(" has ").show(line.len());
            After::Send
        }
    });
    let script =
        "> ab\r\n< ab has 2\n> hush\n>| c\n> d\n< cd has 2\n> \n<  has 0\n>| part\n= end\n";
    sim::check(&service, script, SEEDS);
    sim::check(&service, "> bye\n< \n= closed\n", 0);
    let script = "> 12345678\n< error: expected a shorter line\n= closed\n";
    sim::check(&Lines(8).reply(echo), script, SEEDS);
    // A page in a browser posts its lines after a head.
    let script = "> hi\n< hi\n> POST / HTTP/1.1\\r\n\
        < error: expected a line, found a request of HTTP, as browsers send\n= closed\n";
    sim::check(&Lines(80).reply(echo), script, SEEDS);
    let mut slow = Lines(80).offload(|_: &(), line, reply| echo(line, reply));
    slow.on_open = Some(|_, reply| reply.put("welcome").sent());
    sim::check(&slow, "< welcome\n> a\n< a\n> b\n< b\n> c\n< c\n", SEEDS);
}

#[test]
fn timers_keep_the_laws() {
    let mut service = Lines(80).reply_with(|cx: &Cx<'_, ()>, line, reply| {
        reply.wake_at(match line {
            b"never" => Instant::NEVER,
            b"late" => cx.now + Duration::from_millis(40),
            _ => cx.now,
        });
        echo(line, reply);
    });
    service.on_open = Some(|cx, reply| {
        reply.wake_at(cx.now + Duration::from_millis(20));
        After::Silence
    });
    service.on_timer = Some(|_, reply| reply.put("tick").sent());
    let script = "< tick\n> a\n< a\n< tick\n> late\n< late\n> never\n< never\n= wait 60ms\n\
                  > late\n< late\n< tick\n";
    let script = sim::Golden::parse(script).expect("a good script");
    script.play(&service, || (), &sim::Faults::calm(), 0);
    // The output does not depend on the input, nor on how that is cut and delayed.
    let mut thrice = Lines(80).reply_with(|_: &Cx<'_, Counter>, _, _| After::Silence);
    fn tick(cx: &Cx<'_, Counter>, reply: &mut ReplyBuffer<'_>) -> After {
        match cx.state.add(1) {
            1 => reply.wake_at(cx.now).put("open").sent(),
            count @ ..4 => reply.wake_at(cx.now + Duration::from_millis(5)).show(count).sent(),
            count => {
                reply.show(count);
                After::Close
            }
        }
    }
    thrice.on_open = Some(tick);
    thrice.on_timer = Some(tick);
    let script = "> a\n> b\n< open\n< 2\n< 3\n< 4\n= closed\n";
    let script = sim::Golden::parse(script).expect("a good script");
    script.play(&thrice, Counter::default, &sim::Faults::calm(), SEEDS);
}

#[test]
fn an_overload_refuses_requests_and_keeps_the_connection() {
    let page = roundhouse::http(|_, response| {
        response.text("made");
    });
    let mut talk = Talk::new(&page, &());
    for (is_overloaded, want) in [(true, "503"), (false, "200"), (true, "503")] {
        talk.effects.set_overloaded(is_overloaded);
        let text = talk.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(text.get(9..12), Some(want), "{text}");
        assert_eq!(text.contains("\r\nRetry-After: 1\r\n"), is_overloaded, "{text}");
    }
    assert!(!talk.closes());
}

#[test]
fn a_timer_waits_while_the_output_is_full() {
    let mut busy = lines(|_, _| After::Silence);
    (busy.limits.output_high, busy.limits.output_low) = (100, 10);
    busy.on_timer = Some(|cx, reply| reply.wake_at(cx.now).put("x").sent());
    busy.on_open = busy.on_timer;
    let mut talk = Talk::new(&busy, &());
    for sent in 0..5 {
        while talk.wants().wake.is_some() {
            talk.quietly(Conn::deadline);
        }
        assert_eq!(talk.waiting(), 100, "after {sent} sends");
        talk.sip(90);
        assert!(talk.wants().wake.is_some(), "it goes on when there is room");
    }
}

#[test]
fn frames_keep_the_laws() {
    let fixed = FixedFrames(4).reply(echo);
    sim::check(&fixed, ">| abcdefghij\n<| abcdefgh\n= end\n", SEEDS);
    let prefixed = PrefixedFrames(3).reply(echo);
    let script = ">| \\0\\0\\0\\x02hi\\0\\0\\0\\0\n<| \\0\\0\\0\\x02hi\\0\\0\\0\\0\n= end\n";
    sim::check(&prefixed, script, SEEDS);
    sim::check(&prefixed, ">| \\0\\0\\0\\x04long\n= closed\n", 0);
}

/// Takes what one receive brings for a whole line, as a beginner's server does.
struct OneReadOneLine;

impl Frames for OneReadOneLine {
    fn longest(&self) -> usize {
        80
    }

    fn cut<'a>(&self, input: &'a [u8]) -> Cut<'a> {
        Cut::Message(input.trim_ascii_end(), input.len())
    }

    fn finish(&self, out: &mut Vec<u8>, _start: usize) -> bool {
        out.push(b'\n');
        true
    }
}

#[test]
fn the_simulator_catches_a_service_that_trusts_one_receive() {
    let panic = catch_unwind(|| sim::check(&OneReadOneLine.reply(echo), "> ab\n< ab\n", SEEDS));
    let panic = panic.expect_err("a mutant that is caught");
    let story = panic.downcast_ref::<String>().expect("a story");
    assert!(story.contains("replay: ROUNDHOUSE_SEED="), "{story}");
    assert!(story.contains("equal bytes expected \""), "{story}");
}

#[test]
fn servers_of_threads_serve_inside_a_program() {
    let is_here =
        |preset: &&engines::Preset| !preset.container.is_processes() && !preset.needs_interface();
    for preset in PRESETS.iter().filter(is_here) {
        let engine = preset.name;
        let service = Lines(80).reply_with(|cx: &Cx<'_, Counter>, line, reply| {
            cx.state.add(1);
            echo(line, reply);
        });
        let server = match Server::new(service).engine(engine).spawn() {
            Err(Fault::Ring(_)) => {
                skip("io_uring");
                continue;
            }
            server => server.expect(engine),
        };
        for _ in 0..20 {
            let pieces = [b"one\ntw".to_vec(), b"o\nthr".to_vec()];
            assert_eq!(talk(server.address(), &pieces).expect(engine), b"one\ntwo\n", "{engine}");
        }
        assert_eq!(server.state().get(), 40, "{engine}");
        let report = server.stop().expect(engine);
        assert_eq!((report.accepted, report.replaced, report.forced), (20, 0, false), "{engine}");
    }
}

/// Statics and captured values survive a run in the simulator, as they survive no process.
#[test]
#[should_panic(expected = "keeps state in a `static`")]
fn state_outside_of_the_shared_one_is_found() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let counter = lines(|_, reply| {
        reply.number(COUNT.fetch_add(1, Ordering::Relaxed));
    });
    roundhouse::sim::check(&counter, "> a\n< 0\n> a\n< 1\n", 5);
}

#[test]
fn what_cannot_be_served_is_refused_with_a_remedy() {
    let refused = |server: Server<_>, words: &str| {
        let why = server.spawn().err().expect("a refusal").to_string();
        assert!(why.contains(words), "{why}");
    };
    let silent = || Server::new(lines(|_, _| After::Silence));
    refused(silent().engine("prefork"), "one thread");
    refused(silent().engine("steam"), "expected one of the engines iterative");
    refused(silent().engine("epol"), "found `epol`; did you mean epoll?");
    refused(silent().engine("thread").pushes(), "say --engine epoll");
    refused(silent().listen("nowhere"), "expected an address such as 127.0.0.1:7000");
}

static MADE: AtomicU64 = AtomicU64::new(0);
/// A connection is its number: 3 and above are refused, and 0 is used once.
static POOL: Pool<u64, std::io::Error> =
    Pool::new(2, || match MADE.fetch_add(1, Ordering::Relaxed) {
        number @ 0..3 => Ok(number),
        number => Err(std::io::Error::other(format!("refused {number}"))),
    })
    .checked_by(|number| *number > 0);

#[test]
fn connections_of_a_pool_are_made_used_again_and_closed() {
    let used = || POOL.with(|number| Ok(*number)).map_err(|error| error.to_string());
    assert_eq!(used(), Ok(0));
    assert_eq!(used(), Ok(1), "an idle connection that is not usable is closed");
    assert_eq!(used(), Ok(1));
    assert_eq!(POOL.with(|_| Ok(used())).expect("two connections"), Ok(2));
    assert!(catch_unwind(|| POOL.with(|_| -> std::io::Result<()> { panic!("in use") })).is_err());
    let failed = POOL.with(|_| Err::<(), _>(std::io::Error::other("failed")));
    assert_eq!(failed.map_err(|error| error.to_string()), Err("failed".to_owned()));
    for number in 3..6 {
        assert_eq!(used(), Err(format!("refused {number}")), "no connection is left");
    }
}
