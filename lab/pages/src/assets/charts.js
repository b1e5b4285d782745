// Unpacks plotly.js, draws all charts one after the other, again when colours, width or paper change.
(async () => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("unpacking");
  const unpack = async (id) => {
    const packed = atob(document.getElementById(id).textContent.trim());
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  // A figure names colours as $token; the style sheet knows what they are on screen and on paper.
  const coloured = (value, style) => {
    if (typeof value === "string") {
      if (!value.includes("$")) return value;
      const known = (all, name) => style.getPropertyValue("--" + name).trim() || all;
      return value.replace(/\$([a-z]+[0-9]?)/g, known);
    }
    if (Array.isArray(value)) return value.map((it) => coloured(it, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, style)]));
    }
    return value;
  };
  const narrow = () => root.clientWidth < 560;
  const options = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: "reset" };
  const draw = (source, width) => {
    const style = getComputedStyle(root);
    const place = document.getElementById(source.dataset.for);
    const figure = coloured(JSON.parse(source.textContent), style);
    const layout = figure.layout;
    const small = (width || place.clientWidth) < 480;
    const text = style.getPropertyValue("--text").trim();
    const family = getComputedStyle(document.body).fontFamily;
    Object.assign(layout, {
      height: Number(place.dataset.height),
      width: width || place.clientWidth || undefined,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family, size: small ? 11 : 12.5, color: text },
      hoverlabel: { bgcolor: style.getPropertyValue("--card").trim(), font: { family, color: text } },
      // A chart must not catch the finger that scrolls the page.
      dragmode: narrow() ? false : "zoom",
    });
    if (small) {
      const legends = layout.legend ? Math.ceil(figure.data.length / 3) * 12 : 0;
      layout.height += legends;
    }
    Plotly.react(place, figure.data, layout, options);
    // The place has a name and a table; its lines and letters would only be noise in an ear, and so
    // would the sheet on which plotly measures letters.
    const silent = [...place.children, document.getElementById("js-plotly-tester")];
    for (const it of silent) it?.setAttribute("aria-hidden", "true");
    place.dataset.width = layout.width;
    place.dataset.drawn = "yes";
  };
  const sources = [...document.querySelectorAll("script[data-for]")];
  const place = (source) => document.getElementById(source.dataset.for);
  const drawn = () => sources.filter((source) => place(source).dataset.drawn);
  try {
    const script = document.createElement("script");
    script.textContent = await unpack("plotly");
    document.head.append(script);
    root.classList.add("drawn");
    root.classList.remove("unpacking");
    // Draws what is shown and not drawn at its width: a chart in a closed part waits until it opens.
    let fitting = false;
    const fit = async () => {
      if (fitting) return;
      fitting = true;
      const waits = (source) => {
        const it = place(source);
        return it.clientWidth && String(it.clientWidth) !== it.dataset.width;
      };
      for (let next; !root.classList.contains("paper") && (next = sources.find(waits)); ) {
        draw(next);
        // The page stays alive between two charts.
        await new Promise((go) => setTimeout(go));
      }
      fitting = false;
    };
    const again = () => drawn().forEach((source) => draw(source));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    new ResizeObserver(fit).observe(document.body);
    // Paper is light and has a width of its own: 180 mm at 96 dots an inch.
    addEventListener("beforeprint", () => {
      root.classList.add("paper");
      for (const it of document.querySelectorAll("details:not(.bulk):not(.data):not([open])")) {
        it.open = true;
        it.dataset.closed = "yes";
      }
      for (const source of sources) draw(source, 640);
    });
    addEventListener("afterprint", () => {
      root.classList.remove("paper");
      for (const it of document.querySelectorAll("details[data-closed]")) {
        it.open = false;
        delete it.dataset.closed;
      }
      again();
    });
  } catch (why) {
    root.classList.remove("drawn");
    console.warn("The charts could not be drawn:", why);
  } finally {
    root.classList.remove("unpacking");
  }
})();
