// A flame graph's tree and where its slices lie. Nothing here knows a browser.

// The tree as nodes with their children, own values and totals; a child stands behind its parent in the columns.
// chosen: the own values and counts of a part of the work in place of all.
export function unpackTree(packed, measure, chosen = null) {
  const nodes = packed.parent.map((parent, id) => ({
    id, parent, name: packed.names[packed.name[id]], kind: packed.kind[id], cnt: chosen ? chosen.counts[id] : packed.cnt[id],
    group: packed.class[id], own: chosen ? chosen.times[id] : packed.own[id][measure], total: 0, children: [],
  }));
  for (let id = nodes.length - 1; id >= 0; id--) {
    const node = nodes[id];
    node.total += node.own;
    if (node.parent >= 0) nodes[node.parent].total += node.total;
  }
  for (const node of nodes) if (node.parent >= 0) nodes[node.parent].children.push(node);
  for (const node of nodes) node.children.sort((a, b) => b.total - a.total || a.id - b.id);
  return nodes;
}

// The same turned over: on top what has time of its own, below each what it was in, added up over all places; or over
// those that are inside of a range alone.
export function invertTree(nodes, inside = null) {
  const root = {...nodes[0], own: 0, total: 0, children: [], parent: -1, id: 0};
  const made = [root];
  for (const node of nodes) {
    if (!(node.own > 0) || (inside && !inside[node.id])) continue;
    root.total += node.own;
    let above = root;
    for (let at = node; at && at.kind !== 0; at = nodes[at.parent]) {
      let found = above.children.find((child) => child.name === at.name && child.kind === at.kind);
      if (!found) {
        found = {id: made.length, parent: above.id, name: at.name, kind: at.kind, group: at.group, cnt: 0, own: 0,
          total: 0, children: []};
        made.push(found);
        above.children.push(found);
      }
      found.total += node.own;
      found.cnt += node.cnt;
      above = found;
    }
    if (above === root) continue;
    above.own += node.own;
  }
  for (const node of made) node.children.sort((a, b) => b.total - a.total || a.id - b.id);
  return made;
}

// Slices of a node and all below it, as shares of its width; what is narrower than `least` lies in one slice together.
// Above it stand the nodes that it is in, as wide as itself.
export function layoutSlices(nodes, focus, least, deepest = 60) {
  const slices = [];
  const above = [];
  for (let at = nodes[focus].parent; at >= 0; at = nodes[at].parent) above.unshift(nodes[at]);
  above.forEach((node, depth) => slices.push({node, depth, from: 0, width: 1, above: true}));
  const whole = nodes[focus].total;
  if (!(whole > 0)) return slices;
  const pending = [{node: nodes[focus], depth: above.length, from: 0}];
  while (pending.length) {
    const {node, depth, from} = pending.pop();
    slices.push({node, depth, from, width: node.total / whole});
    if (depth >= deepest) continue;
    let at = from, small = 0, cnt = 0, first = 0;
    for (const child of node.children) {
      if (!(child.total > 0)) continue;
      const width = child.total / whole;
      if (width < least) {
        if (!cnt) first = at;
        small += child.total;
        cnt += 1;
      } else {
        pending.push({node: child, depth: depth + 1, from: at});
      }
      at += width;
    }
    if (cnt && small / whole >= least) {
      slices.push({node: {id: -1, name: `${cnt} smaller`, kind: 5, group: "", cnt, own: small, total: small, children: []},
        depth: depth + 1, from: first, width: small / whole});
    }
  }
  return slices;
}

// The time of all nodes whose name has the words in it, none inside another of them.
export function matchingTime(nodes, words) {
  const wanted = words.toLowerCase();
  let total = 0;
  const pending = [nodes[0]];
  while (pending.length) {
    const node = pending.pop();
    if (node.kind !== 0 && node.name.toLowerCase().includes(wanted)) total += node.total;
    else pending.push(...node.children);
  }
  return total;
}

// The names from the outermost range down to a node.
export function namesTo(nodes, node) {
  const names = [];
  for (let at = node; at && at.kind !== 0; at = nodes[at.parent]) names.unshift(at.name);
  return names;
}
