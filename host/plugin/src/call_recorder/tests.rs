use super::*;
use crate::{Fault, StubHost};

/// Lists the functions that are called, separately for each call of the guest.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<Vec<&'static str>>>>);

impl CallRecorder for Calls {
    fn begin(&self, _: GuestCall) -> Option<Box<dyn GuestCallRecorder>> {
        self.0.lock().push(Vec::new());
        Some(Box::new(self.clone()))
    }
}

impl GuestCallRecorder for Calls {
    fn host_call(&mut self, call: HostCall) {
        self.0.lock().last_mut().expect("a call of the guest").push(call.request.function());
    }

    fn end(self: Box<Self>, _: GuestResult) {}
}

fn http() -> HostRequest {
    HostRequest::HttpSend { method: "GET".to_owned(), url: "https://a.example/".to_owned() }
}

#[test]
fn a_request_that_outlives_its_call_is_not_reported_for_the_next_one() {
    let calls = Calls::default();
    let recorder = InstanceRecorder::of(&StubHost::new("{}").recorded_by(Arc::new(calls.clone())));
    let instance = recorder.0.as_ref().expect("a recorded instance");
    let done = || GuestResult::Instantiate(Ok::<(), Fault>(()));

    let first = recorder.begin(|| GuestCall::Instantiate);
    let (answered, [late, dropped]) = (instance.begin(http), [(); 2].map(|()| instance.begin(http)));
    answered.end(|| HostAnswer::HttpStatus(200));
    first.end(done);

    let second = recorder.begin(|| GuestCall::Instantiate);
    late.end(|| HostAnswer::HttpStatus(200));
    drop(dropped);
    instance.begin(|| HostRequest::WallClock).end(|| HostAnswer::Nothing);
    second.end(done);
    assert_eq!(*calls.0.lock(), [vec!["http"], vec!["wall-clock"]]);
}
