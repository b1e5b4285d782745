// Unpacks plotly.js, draws the charts, and redraws them when the colours change.
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
      return value.startsWith("$") ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((it) => coloured(it, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, style)]));
    }
    return value;
  };
  const draw = () => {
    const style = getComputedStyle(root);
    for (const source of document.querySelectorAll("script[data-for]")) {
      const place = document.getElementById(source.dataset.for);
      const figure = coloured(JSON.parse(source.textContent), style);
      const text = style.getPropertyValue("--text").trim();
      figure.layout = {
        ...figure.layout,
        height: Number(place.dataset.height),
        autosize: true,
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: text },
        hoverlabel: { bgcolor: style.getPropertyValue("--card").trim(), font: { color: text } },
      };
      const options = { displayModeBar: false, responsive: true, scrollZoom: false };
      Plotly.react(place, figure.data, figure.layout, options);
    }
  };
  try {
    const script = document.createElement("script");
    script.textContent = await unpack("plotly");
    document.head.append(script);
    root.classList.add("drawn");
    draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  } catch (why) {
    root.classList.remove("drawn");
    console.warn("The charts could not be drawn:", why);
  } finally {
    root.classList.remove("unpacking");
  }
})();
