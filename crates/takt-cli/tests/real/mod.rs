mod children;
mod ends;
mod jobs;
mod kernel;
mod online;
mod order;
mod protocol;
mod replay;
