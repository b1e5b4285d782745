(() => {
    const parse = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
    const linear = (c) => (c /= 255, c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const behind = (it) => {
        for (let one = it; one; one = one.parentElement) {
            const colour = parse(getComputedStyle(one).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const faint = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const it = walk.currentNode.parentElement;
        if (!walk.currentNode.textContent.trim() || it.closest('svg, script, style')) continue;
        if (!it.checkVisibility()) continue;
        const style = getComputedStyle(it);
        const [a, b] = [light(parse(style.color)), light(behind(it))].sort((x, y) => y - x);
        const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
        const large = size >= 24 || (bold && size >= 18.66);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < (large ? 3 : 4.5)) {
            faint.push(`${it.tagName}.${it.className}: ${ratio.toFixed(2)} ${style.color}`);
        }
    }
    return [...new Set(faint)];
})()