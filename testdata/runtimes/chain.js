// The second link of the chain (load.sh): a server that asks the next one, and does some work on the answer.
const http = require("http");

function countWords(text) {
	const counts = new Map();
	for (const word of text.split(/\W+/)) counts.set(word, (counts.get(word) || 0) + 1);
	return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

function answer(response, body) {
	const list = countWords(body);
	response.end(JSON.stringify(list.slice(0, 20)) + "\n");
}

const agent = new http.Agent({keepAlive: true});

function forward(request, response) {
	http.get({port: process.argv[3], path: request.url, agent}, from => {
		const parts = [];
		from.on("data", part => parts.push(part));
		from.on("end", () => answer(response, Buffer.concat(parts).toString()));
	}).on("error", () => { response.statusCode = 502; response.end(); });
}

http.createServer(forward).listen(process.argv[2], "127.0.0.1");
