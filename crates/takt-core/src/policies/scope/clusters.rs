//! The clusters of a scope, and which tasks are at home in which.

use super::packing;
use crate::model::TaskId;
use crate::policy::Build;
use crate::record::Place;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// The clusters of CPUs that a scope makes, with what its policy keeps of each. It is the slice of them.
pub(crate) struct Clusters<C> {
    /// By task of the system; only those of the policy mean something.
    home: Vec<u16>,
    /// By single-CPU place; only those that the policy may be lent mean something.
    of_place: Vec<u16>,
    /// By cluster: its first CPU, if it has any.
    first: Vec<Option<Place>>,
    /// By cluster: how many CPUs are in the clusters before it; and how many there are in all.
    starts: Vec<u16>,
    cpus: u16,
    clusters: Vec<C>,
}

impl<C> Clusters<C> {
    /// The clusters of the scope that `build` names, with its tasks placed by [`packing::pack`]. Each is made from its index,
    /// the tasks that are at home there and its CPUs.
    pub(crate) fn new(build: &Build<'_>, make: impl FnMut(usize, Vec<TaskId>, &[Place]) -> C) -> Self {
        let home = packing::pack(build).homes;
        Clusters::visited(build, |task, index, _| usize::from(home[task.index()]) == index, make)
    }

    /// One cluster of all CPUs, where every task is at home.
    pub(crate) fn one(build: &Build<'_>, cluster: C) -> Self {
        Clusters {
            home: vec![0; build.system.tasks.len()],
            of_place: vec![0; build.system.cpus.len()],
            first: vec![build.places.first().copied()],
            starts: vec![0],
            cpus: build.places.len() as u16,
            clusters: vec![cluster],
        }
    }

    /// The clusters with tasks packed by what each task `needs`, in units of 2^-62 of a CPU. O(n log n + n m) for n tasks and m CPUs.
    pub(crate) fn packed(
        build: &Build<'_>,
        needs: impl Fn(TaskId) -> i128,
        make: impl FnMut(usize, Vec<TaskId>, &[Place]) -> C,
    ) -> Self {
        Clusters::led(build, needs, |task| task, make)
    }

    /// The same with tasks that go wherever the one that `leads` them is packed.
    pub(crate) fn led(
        build: &Build<'_>,
        needs: impl Fn(TaskId) -> i128,
        leads: impl Fn(TaskId) -> TaskId,
        make: impl FnMut(usize, Vec<TaskId>, &[Place]) -> C,
    ) -> Self {
        let home = packing::homes(build, needs);
        Clusters::visited(build, |task, index, _| usize::from(home[leads(task).index()]) == index, make)
    }

    /// The clusters with the tasks that are ever at home there, by the index and the CPUs of a cluster: at first in the last one
    /// of those, and then where [`Clusters::move_to`] puts them.
    pub(crate) fn visited(
        build: &Build<'_>,
        visits: impl Fn(TaskId, usize, &[Place]) -> bool,
        mut make: impl FnMut(usize, Vec<TaskId>, &[Place]) -> C,
    ) -> Self {
        let groups = packing::clusters(build);
        let mut home = vec![0; build.system.tasks.len()];
        let mut of_place = vec![0; build.system.cpus.len()];
        let cluster = |(index, places): (usize, &&[Place])| {
            places.iter().for_each(|p| of_place[p.index()] = index as u16);
            let tasks: Vec<TaskId> = build.tasks.iter().copied().filter(|t| visits(*t, index, places)).collect();
            tasks.iter().for_each(|t| home[t.index()] = index as u16);
            make(index, tasks, places)
        };
        let clusters = groups.iter().enumerate().map(cluster).collect();
        let first = groups.iter().map(|places| places.first().copied()).collect();
        let start = |next: &mut u16, places: &&[Place]| Some(core::mem::replace(next, *next + places.len() as u16));
        let starts = groups.iter().scan(0, start).collect();
        Clusters { home, of_place, first, starts, cpus: build.places.len() as u16, clusters }
    }

    /// The index of the cluster that the task is at home in.
    pub(crate) fn home(&self, task: TaskId) -> usize {
        usize::from(self.home[task.index()])
    }

    /// The first CPU of that cluster; `None` if there are no CPUs.
    pub(crate) fn first_cpu(&self, task: TaskId) -> Option<Place> {
        self.first[self.home(task)]
    }

    /// The index of the cluster of a single-CPU place.
    pub(crate) fn at(&self, place: Place) -> usize {
        usize::from(self.of_place[place.index()])
    }

    /// From now on the task is at home in the cluster of this CPU.
    pub(crate) fn move_to(&mut self, task: TaskId, place: Place) {
        self.home[task.index()] = self.of_place[place.index()];
    }

    /// Whether `places`, of which each is one of the policy's and in their order, are all of them.
    pub(crate) fn are_all_of(&self, places: &[Place]) -> bool {
        places.len() == usize::from(self.cpus)
    }

    /// The places of a cluster, of all places of the policy.
    pub(crate) fn places_of<'a>(&self, cluster: usize, all: &'a [Place]) -> &'a [Place] {
        let end = self.starts.get(cluster + 1).map_or(all.len(), |start| usize::from(*start));
        all.get(usize::from(self.starts[cluster])..end).unwrap_or_default()
    }

    /// The cluster that the task is at home in.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn of(&mut self, task: TaskId) -> &mut C {
        &mut self.clusters[usize::from(self.home[task.index()])]
    }

    /// The cluster of the first of these places, those that follow it and belong to the same one, and the others; `None` if
    /// there are none.
    pub(crate) fn split<'a>(&self, places: &'a [Place]) -> Option<(usize, &'a [Place], &'a [Place])> {
        let cluster = self.of_place[places.first()?.index()];
        let size = match self.clusters.len() {
            1 => places.len(),
            _ => places.iter().take_while(|p| self.of_place[p.index()] == cluster).count(),
        };
        let (group, others) = places.split_at(size);
        Some((usize::from(cluster), group, others))
    }
}

impl<C> Deref for Clusters<C> {
    type Target = [C];

    fn deref(&self) -> &[C] {
        &self.clusters
    }
}

impl<C> DerefMut for Clusters<C> {
    fn deref_mut(&mut self) -> &mut [C] {
        &mut self.clusters
    }
}
