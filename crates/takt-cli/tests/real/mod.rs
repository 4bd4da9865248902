mod children;
mod ends;
mod kernel;
mod online;
mod order;
mod protocol;
mod replay;
