//! The declarations of a file for its tasks: resources and servers.

use crate::node::Place;
use std::collections::HashMap;
use takt_core::model::{ResourceId, Server, ServerId};

/// The names of the shared resources; their places in the list are their numbers.
#[derive(Default)]
pub(crate) struct Resources {
    pub(crate) names: Vec<String>,
    pub(crate) index: HashMap<String, u16>,
    /// Where the file lists them. Without a list, steps introduce them.
    pub(crate) list: Option<Place>,
}

impl Resources {
    pub(crate) fn add(&mut self, name: &str) -> ResourceId {
        let number = self.names.len() as u16;
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), number);
        ResourceId(number)
    }

    pub(crate) fn len(&self) -> u16 {
        self.names.len() as u16
    }

    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }
}

/// The servers of the file; their places in the list are their numbers.
#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) list: Vec<Named>,
    pub(crate) index: HashMap<String, ServerId>,
    /// Where the file lists them, if it does.
    pub(crate) place: Option<Place>,
    /// Some could not be read, so that a task may name one that is not here.
    pub(crate) partial: bool,
}

pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) server: Server,
    pub(crate) used: bool,
}
