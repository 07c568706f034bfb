// Keeps a page up to date: after each event of the host, fetches the page again and replaces the elements with `data-live` that have changed.
// Without the stream of events, fetches the page at intervals.
"use strict";

const POLL_MILLISECONDS = 5000;

const statusLine = document.getElementById("updates");
const pauseButton = document.getElementById("pause");
const eventsPath = document.body.dataset.events;

let stream = null;
let timer = null;
let isPaused = false;
let isFetching = false;
let isStale = false;

function say(text) {
  // Screen readers read the line after each change.
  if (statusLine.textContent !== text) {
    statusLine.textContent = text;
  }
}

function hasSelectionIn(element) {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
}

// Returns a function that gives the focus back after the content of an element was replaced.
function rememberFocus(element) {
  const focused = document.activeElement;
  const href = focused === null ? null : focused.getAttribute("href");
  if (focused === element || !element.contains(focused) || href === null) {
    return () => {};
  }
  return () => {
    const replacement = element.querySelector(`[href="${CSS.escape(href)}"]`);
    if (replacement !== null) {
      replacement.focus({ preventScroll: true });
    }
  };
}

// Whether an element consists of elements only, so that they can be replaced one by one.
function isContainer(element) {
  return ["SECTION", "DIV"].includes(element.tagName) && element.childElementCount === element.childNodes.length;
}

// Makes the content of one element that of another. Elements that are the same stay, with their focus and scroll position.
function update(current, next) {
  if (current.isEqualNode(next)) {
    return;
  }
  if (isContainer(current) && isContainer(next) && current.childElementCount === next.childElementCount) {
    Array.from(current.children).forEach((child, position) => {
      const replacement = next.children[position];
      if (child.cloneNode(false).isEqualNode(replacement.cloneNode(false))) {
        update(child, replacement);
      } else {
        child.replaceWith(document.importNode(replacement, true));
      }
    });
    return;
  }
  const restoreFocus = rememberFocus(current);
  current.replaceChildren(...Array.from(next.childNodes, (node) => document.importNode(node, true)));
  restoreFocus();
}

async function refresh() {
  if (isFetching) {
    isStale = true;
    return;
  }
  isFetching = true;
  try {
    const response = await fetch(window.location.href, { cache: "no-store", redirect: "error" });
    if (!response.ok) {
      say(`Not up to date: the host answers with status ${response.status}`);
      return;
    }
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    if (stream === null && timer === null) {
      return;
    }
    for (const element of document.querySelectorAll("[data-live]")) {
      const replacement = next.getElementById(element.id);
      if (replacement !== null && !hasSelectionIn(element)) {
        update(element, replacement);
      }
    }
    say(stream === null ? "Updated every 5 seconds" : "Live");
  } catch {
    say("Not up to date: the host does not answer");
  } finally {
    isFetching = false;
    if (isStale) {
      isStale = false;
      refresh();
    }
  }
}

function stop() {
  if (stream !== null) {
    stream.close();
    stream = null;
  }
  clearInterval(timer);
  timer = null;
}

function poll() {
  stop();
  timer = setInterval(refresh, POLL_MILLISECONDS);
  refresh();
}

function start() {
  stop();
  stream = new EventSource(eventsPath);
  stream.onmessage = refresh;
  stream.onerror = () => {
    // The browser connects again by itself, unless the host refuses the stream.
    if (stream !== null && stream.readyState === EventSource.CLOSED) {
      poll();
    } else {
      refresh();
    }
  };
}

// Nobody reads a hidden page, and the host has a limited number of streams.
function startOrStop() {
  if (isPaused || document.hidden) {
    stop();
    say(isPaused ? "Paused" : "");
  } else {
    start();
  }
}

pauseButton.hidden = false;
pauseButton.addEventListener("click", () => {
  isPaused = !isPaused;
  pauseButton.textContent = isPaused ? "Resume updates" : "Pause updates";
  startOrStop();
});
document.addEventListener("visibilitychange", startOrStop);
startOrStop();
