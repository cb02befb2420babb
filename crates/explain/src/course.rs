//! The course of a run, as the report tells it.

use weir_measure::course::CourseFold;
use weir_measure::part::Part;
use weir_report::{Course, CourseSlice};
use weir_timeline::Response;
use weir_wire::client::{ClientRequest, Outcome};
use weir_wire::{Kind, Record, Slot};

/// The fold over responses, and over the requests that had none.
#[derive(Debug, Default)]
pub(super) struct RunCourse {
    fold: CourseFold,
}

impl RunCourse {
    /// Takes a record: of a client's requests those count that failed, for they are no responses.
    pub(super) fn record(&mut self, record: &Record, payload: &[Slot]) {
        if record.kind == Kind::ClientRequest as u16
            && let Some(request) = ClientRequest::read(record, payload)
            && request.outcome != Outcome::Done
        {
            self.fold.error(request.done_ns);
        }
    }

    /// Takes a response.
    pub(super) fn push(&mut self, response: &Response<'_>) {
        let steps = response.steps.iter().map(|step| (step.part, step.to_ns - step.from_ns));
        self.fold.push(response.request.done_ns, response.time_ns(), steps);
        if response.request.status >= 400 {
            self.fold.error(response.request.done_ns);
        }
    }

    /// The slices, with times since the first request.
    pub(super) fn report(&self, first_ns: u64) -> Option<Course> {
        let (slice_ns, slices) = self.fold.slices();
        let slices: Vec<CourseSlice> = slices
            .into_iter()
            .map(|slice| {
                let answered = slice.times.count();
                let quantile = |share: f64| (answered > 0).then(|| slice.times.quantile_ns(share));
                let mut parts_ns = [0.0; Part::COUNT];
                for (mean, sum) in parts_ns.iter_mut().zip(slice.parts) {
                    *mean = sum as f64 / answered.max(1) as f64;
                }
                CourseSlice {
                    at_s: (i128::from(slice.at_ns) - i128::from(first_ns)) as f64 / 1e9,
                    answered,
                    errors: slice.errors,
                    p50_ns: quantile(0.5),
                    p99_ns: quantile(0.99),
                    parts_ns,
                }
            })
            .collect();
        (!slices.is_empty()).then_some(Course { slice_s: slice_ns as f64 / 1e9, slices })
    }
}
