// Follows a log by server-sent events, searches in it, keeps the page light.
const box = document.getElementById("log");
const search = document.getElementById("log-search");
const follow = document.getElementById("log-follow");
const stateLine = document.getElementById("log-state");
const KEPT = 2_000_000; // characters; the whole log is in the download

let text = box?.textContent ?? "";
let offset = box?.dataset.offset ?? "0";
let source = null;
let drawn = false;

const say = (words) => {
  stateLine.textContent = words;
};
const atEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < 40;

function draw() {
  drawn = false;
  const words = search.value.toLowerCase();
  const stick = atEnd();
  if (!words) {
    box.textContent = text;
  } else {
    const lines = text.split("\n").filter((line) => line.toLowerCase().includes(words));
    box.replaceChildren(
      ...lines.flatMap((line) => {
        const at = line.toLowerCase().indexOf(words);
        const mark = document.createElement("mark");
        mark.textContent = line.slice(at, at + words.length);
        return [line.slice(0, at), mark, `${line.slice(at + words.length)}\n`];
      }),
    );
    say(`${box.dataset.textFound} ${lines.length}`);
  }
  if (stick && follow.checked) box.scrollTop = box.scrollHeight;
}

function soon() {
  if (drawn) return;
  drawn = true;
  requestAnimationFrame(draw);
}

function connect() {
  const url = new URL(box.dataset.stream, location.href);
  url.searchParams.set("offset", offset);
  source = new EventSource(url); // of a cluster's log the portal leads to the gate
  source.addEventListener("open", () => say(box.dataset.textLive));
  source.addEventListener("log", (event) => {
    const part = JSON.parse(event.data);
    offset = String(part.offset);
    text = (text + part.text).slice(-KEPT);
    document.getElementById("log-empty")?.remove();
    soon();
  });
  source.addEventListener("reset", (event) => {
    const part = JSON.parse(event.data);
    offset = String(part.offset);
    text = part.text;
    if (text) document.getElementById("log-empty")?.remove();
    soon();
  });
  source.addEventListener("end", () => {
    stop();
    say(box.dataset.textOver);
  });
  source.addEventListener("error", () => {
    say(box.dataset.textLost);
    if (source?.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(() => follow.checked && !source && connect(), 5000);
    }
  });
}

function stop() {
  source?.close();
  source = null;
}

if (box) {
  box.scrollTop = box.scrollHeight;
  search.addEventListener("input", soon);
  follow.addEventListener("change", () => {
    if (follow.checked) {
      if (!source) connect();
    } else {
      stop();
      say(box.dataset.textPaused);
    }
  });
  addEventListener("pagehide", stop);
  connect();
}
