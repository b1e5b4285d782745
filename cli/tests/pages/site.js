const loaded = [...Array(8).keys()].map(n => new Promise((good, bad) => {
    const picture = new Image();
    picture.onload = good; picture.onerror = () => bad(Error("picture " + n));
    picture.src = "picture.svg?" + n;
    document.getElementById("pictures").append(picture);
}));
const event = (it, name) => new Promise((good, bad) => {
    it.addEventListener(name, good, {once: true});
    it.addEventListener("error", () => bad(Error(name + ": " + it.error?.message)), {once: true});
});
async function check() {
    const all = async answer => new Uint8Array(await answer.arrayBuffer());
    await Promise.all(loaded);
    if (getComputedStyle(document.body).color !== "rgb(1, 2, 3)") throw Error("no style");
    const sound = document.getElementById("sound");
    if (sound.readyState < 1) await event(sound, "loadedmetadata");
    sound.currentTime = 45;
    await event(sound, "seeked");
    const whole = await all(await fetch("great"));
    const part = await fetch("great", {headers: {Range: "bytes=70000-140000"}, cache: "no-store"});
    const bytes = await all(part);
    if (bytes.some((byte, at) => byte !== whole[70000 + at])) throw Error("another part");
    const form = new URLSearchParams({word: "a b&c", more: "\u00e9"});
    const posted = await (await fetch("/", {method: "POST", body: form})).text();
    const missing = (await fetch("none")).status;
    return [whole.length, whole.every((byte, at) => byte === at % 251), part.status, bytes.length,
        sound.duration, posted, missing];
}
