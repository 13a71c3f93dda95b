from langchain.agents import AgentExecutor, create_openai_functions_agent
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def word_length(word: str) -> int:
    """Return the length of a word."""
    return len(word)


prompt = ChatPromptTemplate.from_messages([
    ("system", "You are a helpful assistant."),
    ("human", "{input}"),
    MessagesPlaceholder("agent_scratchpad"),
])
llm = ChatOpenAI(model="gpt-3.5-turbo", temperature=0)
agent = create_openai_functions_agent(llm, [word_length], prompt)
executor = AgentExecutor(agent=agent, tools=[word_length])
print(executor.invoke({"input": "How long is the word 'gateway'?"})["output"])
