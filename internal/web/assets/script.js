// The live refresh: the server renders, this only swaps. Without it all else works.
"use strict";
(function () {
  const live = document.getElementById("live");
  if (!live) return;
  const every = 5000;
  async function refresh() {
    // A focused button or a hidden page is left alone.
    if (document.hidden || live.contains(document.activeElement)) return;
    const said = await fetch("/live", { headers: { Accept: "text/html" }, redirect: "error" });
    if (said.status === 401) {
      location.reload();
      return;
    }
    if (!said.ok) throw new Error("the server answered " + said.status);
    const text = await said.text();
    if (live.contains(document.activeElement)) return;
    const fresh = new DOMParser().parseFromString(text, "text/html");
    live.replaceChildren(...fresh.body.childNodes);
    live.classList.remove("old");
  }
  setInterval(function () {
    refresh().catch(function () { live.classList.add("old"); });
  }, every);
})();
