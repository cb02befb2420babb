//! What every part of an experiment needs: who may stop it, who cleans up, how CPU is counted.
use std::rc::Rc;
use std::sync::Arc;

use crate::accounting::CpuAccounting;
use crate::control_group::{ControlGroup, ControlGroups};
use crate::cpus::CpuSet;
use crate::error::{ExperimentError, PlanError};
use crate::guardian::Guardian;
use crate::interrupt::Interrupt;
use crate::plan::{CpuAccountingChoice, Plan};
use crate::workplace::Workplace;

/// The surroundings of one experiment.
pub(crate) struct Bench {
    pub(crate) interrupt: Interrupt,
    pub(crate) guardian: Rc<Guardian>,
    groups: Option<Arc<ControlGroups>>,
    pub(crate) workplace: Workplace,
}

impl Bench {
    /// Checks the plan against this machine and prepares.
    pub(crate) fn set_up(plan: &Plan, interrupt: Interrupt) -> Result<Self, ExperimentError> {
        check_cpus(plan)?;
        let workplace = Workplace::create(plan)?;
        let groups = match plan.accounting {
            CpuAccountingChoice::Best => ControlGroups::create(plan.servers.len()).ok().map(Arc::new),
            CpuAccountingChoice::ProcessTree => None,
        };
        let kill_file = groups.as_ref().and_then(|groups| groups.kill_file());
        let directories = groups.as_ref().map(|groups| groups.directories()).unwrap_or_default();
        let guardian = Guardian::start(kill_file, &directories, workplace.folder())
            .map_err(|source| ExperimentError::System { what: "forking the process that cleans up", source })?;
        Ok(Self { interrupt, guardian: Rc::new(guardian), groups, workplace })
    }

    pub(crate) fn accounting(&self) -> CpuAccounting {
        if self.groups.is_some() { CpuAccounting::ControlGroup } else { CpuAccounting::ProcessTree }
    }

    pub(crate) fn groups(&self) -> Option<Arc<ControlGroups>> {
        self.groups.clone()
    }

    /// The control group of a server, by its index.
    pub(crate) fn server_group(&self, index: usize) -> Option<&ControlGroup> {
        self.groups.as_ref().and_then(|groups| groups.servers.get(index))
    }

    pub(crate) fn load_group(&self) -> Option<&ControlGroup> {
        self.groups.as_ref().map(|groups| &groups.load)
    }

    pub(crate) fn beside_group(&self) -> Option<&ControlGroup> {
        self.groups.as_ref().map(|groups| &groups.beside)
    }
}

fn check_cpus(plan: &Plan) -> Result<(), ExperimentError> {
    let available = CpuSet::available()
        .map_err(|source| ExperimentError::System { what: "asking which CPUs there are", source })?;
    let pinning = &plan.pinning;
    let own = plan.servers.iter().map(|server| ("server", &server.cpus));
    let general = [("server", &pinning.server), ("load", &pinning.load), ("beside", &pinning.beside)];
    for (role, cpus) in general.into_iter().chain(own) {
        for cpu in cpus.iter().flat_map(CpuSet::numbers) {
            if !available.numbers().contains(cpu) {
                let available = available.to_string();
                return Err(PlanError::Cpu { role, cpu: *cpu, available }.into());
            }
        }
    }
    Ok(())
}
