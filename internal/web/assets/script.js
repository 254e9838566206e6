// The keys, and the refresh: it fetches this page again and takes over what
// changed in its live parts. All else works without this script.
"use strict";
(function () {
  const undo = document.getElementById("undo");
  if (undo) setTimeout(function () { undo.hidden = true; }, 10000);
})();
(function () {
  const help = document.getElementById("keys");
  if (!help || !document.getElementById("addr")) return;
  const off = () => localStorage.getItem("keys") === "off";
  const toggle = document.getElementById("keysoff");
  function label() { toggle.textContent = off() ? "Turn the keys on" : "Turn the keys off"; }
  toggle.addEventListener("click", function () {
    if (off()) localStorage.removeItem("keys"); else localStorage.setItem("keys", "off");
    label();
  });
  const open = document.getElementById("showkeys");
  open.hidden = false;
  function show() { label(); help.showModal(); }
  open.addEventListener("click", show);
  function turn(rel) {
    const link = document.querySelector('main a[rel="' + rel + '"]');
    if (link) link.click();
  }
  const places = { o: "/", b: "/blocks", c: "/charts", h: "/history", a: "/allowed" };
  addEventListener("keydown", function (e) {
    if (e.ctrlKey || e.metaKey || e.altKey || help.open || off() || e.target.closest("input, select, textarea, summary, pre")) return;
    if (e.key === "/") document.getElementById("addr").select();
    else if (e.key === "?") show();
    else if (e.key === "ArrowLeft") turn("prev");
    else if (e.key === "ArrowRight") turn("next");
    else if (places[e.key]) location.href = places[e.key];
    else return;
    e.preventDefault();
  });
})();
(function () {
  const every = 5000; // ms between refreshes
  const patience = 4000; // ms; a server that takes longer gives no answer
  const url = document.body.dataset.refresh;
  const alarm = document.getElementById("noanswer");
  if (!url || !alarm) return;
  const title = document.title;
  let busy = false, moved = 0, answered = Date.now();

  const keyOf = (n) => n.nodeType === 1 ? n.id || n.dataset.key || "" : "";

  function attributes(old, fresh) {
    for (const a of fresh.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    for (const a of [...old.attributes]) {
      // What a person opened stays open.
      if (!fresh.hasAttribute(a.name) && !(a.name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(a.name);
    }
  }

  // morph makes old equal to fresh in place, so that focus, open details and
  // typed text stay.
  function morph(old, fresh) {
    attributes(old, fresh);
    const keyed = new Map();
    for (const c of old.children) if (keyOf(c)) keyed.set(keyOf(c), c);
    let at = old.firstChild;
    for (const f of [...fresh.childNodes]) {
      const key = keyOf(f);
      let o = key ? keyed.get(key) : at;
      if (!o || o.nodeType !== f.nodeType || o.nodeName !== f.nodeName || (!key && keyOf(o))) {
        old.insertBefore(f, at);
        continue;
      }
      keyed.delete(key);
      if (o === at) at = at.nextSibling;
      else old.insertBefore(o, at);
      if (o.nodeType === 1) morph(o, f);
      else if (o.data !== f.data) o.data = f.data;
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function take(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    if (document.querySelector("[data-again]") && !fresh.querySelector("[data-again]")) return location.reload();
    const focused = document.activeElement;
    for (const part of document.querySelectorAll("[data-live]")) {
      const news = fresh.getElementById(part.id);
      if (news) morph(part, news);
    }
    if (focused === document.activeElement) return;
    (focused.isConnected ? focused : document.getElementById("main")).focus({ preventScroll: true });
  }

  function silent() {
    const pulse = document.getElementById("pulse");
    const since = "No answer since " + (Date.now() - answered < 12 * 3600 * 1000 ? pulse.dataset.clock : pulse.dataset.stamp);
    if (alarm.dataset.since !== since) {
      alarm.dataset.since = since;
      alarm.textContent = since + ". This page shows what was known then.";
    }
    alarm.hidden = false;
    document.title = "No answer · " + title;
    document.body.classList.add("old");
    for (const s of document.querySelectorAll("[data-state]")) s.textContent = since;
  }

  function answers() {
    answered = Date.now();
    alarm.hidden = true;
    delete alarm.dataset.since;
    document.title = title;
    document.body.classList.remove("old");
  }

  // loggedOut shows the login, unless that would lose what was typed.
  function loggedOut() {
    for (const f of document.querySelectorAll("main input, main select")) {
      if (f.type !== "hidden" && (f.options ? ![...f.options].every((o) => o.selected === o.defaultSelected) : f.value !== f.defaultValue)) {
        alarm.textContent = "Your session has ended. Send the form to log in again; what you typed is kept.";
        alarm.hidden = false;
        return;
      }
    }
    location.reload();
  }

  async function refresh() {
    // Rows must not move under a pointer that is about to click.
    if (busy || document.hidden || Date.now() - moved < 1500 && Date.now() - answered < 2 * every) return;
    busy = true;
    try {
      const got = await fetch(url, { headers: { "Stoplog-Refresh": "1" }, redirect: "error", cache: "no-store", signal: AbortSignal.timeout(patience) });
      if (got.status === 401) return loggedOut();
      if (!got.ok && !document.querySelector("[data-again]")) throw new Error("the server answered " + got.status);
      const text = await got.text();
      take(text);
      if (got.ok) answers();
    } catch (_) {
      silent();
    } finally {
      busy = false;
    }
  }

  addEventListener("pointermove", function (e) {
    if (e.target.closest && e.target.closest("[data-live] button, [data-live] a")) moved = Date.now();
  }, { passive: true });
  addEventListener("visibilitychange", refresh);
  setInterval(refresh, every);
})();
