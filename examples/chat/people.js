// Names: a colour and an avatar for each.

export function hueOf(name) {
  let hash = 2166136261;
  for (const character of name.toLowerCase()) hash = Math.imul(hash ^ character.codePointAt(0), 16777619);
  return ((hash >>> 0) % 24) * 15; // 24 hues that one can tell apart
}

// The first letter of the first two words, or an emoji.
export function initialsOf(name) {
  const words = name.split(" ").filter(Boolean);
  const letters = words.slice(0, 2).map((word) => [...new Intl.Segmenter().segment(word)][0].segment.toUpperCase());
  return letters.every((letter) => /^\p{L}/u.test(letter)) ? letters.join("") : letters[0];
}

export function paintAvatar(element, name) {
  element.textContent = name ? initialsOf(name) : "";
  element.style.setProperty("--hue", hueOf(name));
}

export function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", "#i-" + name);
  svg.append(use);
  svg.setAttribute("aria-hidden", "true");
  return svg;
}

export function paintPeople(list, people, me) {
  const sorted = [...people].sort((a, b) => (b === me) - (a === me) || a.localeCompare(b));
  list.replaceChildren(
    ...sorted.map((name) => {
      const item = make("li");
      const avatar = make("span", "avatar");
      avatar.setAttribute("aria-hidden", "true");
      paintAvatar(avatar, name);
      item.append(avatar, make("span", "person", name));
      if (name === me) item.append(make("span", "you", "you"));
      item.append(make("span", "status"));
      return item;
    }),
  );
}
