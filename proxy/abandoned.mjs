// Lets go of what a visitor left behind.
//
// http-proxy-3 tells the workload that nothing more comes, and no more. Output that waited for a
// visitor who did not read is then read by nobody, so the workload's own end, which stands behind it,
// is never seen: connection and memory would stay until the proxy ends.  And a visitor whose machine
// or network went away says nothing at all: the kernel would ask after two hours.

const GRACE_MS = 10_000; // for a workload to hang up in turn; what is under way to it goes on
const ASK_AFTER_MS = 120_000; // quiet for so long, a visitor's machine is asked whether it is there

export function askIfThere(socket) {
  socket.setKeepAlive(true, ASK_AFTER_MS);
}

// visitor, workload: the two halves of one WebSocket.
export function endTogether(visitor, workload) {
  // later than the pipe between them, which pauses the workload when it is taken apart
  const begin = () => setImmediate(letGo, workload);
  if (visitor.destroyed) return begin();
  visitor.once("end", begin); // its machine said so; whether it reads on does not matter any more
  visitor.once("close", begin);
}

function letGo(workload) {
  if (workload.destroyed) return;
  workload.resume();
  workload.end();
  const timer = setTimeout(() => workload.destroy(), GRACE_MS);
  workload.once("close", () => clearTimeout(timer));
}
